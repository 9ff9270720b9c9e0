/* Bursts of frames: the code that runs for each frame. */

#include <rte_memcpy.h>

#include "internal.h"

/* The most frames that drivers take at once. */
#define BURST 64

uint16_t am_rx(uint16_t port, struct am_pool *pool, struct am_frame *out, uint16_t most, uint32_t *odd)
{
	struct rte_mbuf *mbufs[BURST];
	am_enter(pool);
	uint16_t count = rte_eth_rx_burst(port, QUEUE, mbufs, RTE_MIN(most, BURST));
	uint16_t taken = 0;
	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *mbuf = mbufs[i];
		/* A frame in several segments is longer than any of ours. A frame that is no receive buffer was
		 * sent by this side and passed on by a loopback driver; it may have other users. */
		if (unlikely(mbuf->nb_segs != 1 || mbuf->pool != pool->mempool || !pool->blank[am_index(pool, mbuf)])) {
			rte_pktmbuf_free(mbuf);
			(*odd)++;
			continue;
		}
		uint32_t index = am_index(pool, mbuf);
		pool->blank[index] = false;
		char *chunk = pool->base + (size_t)index * pool->stride;
		out[taken++] = (struct am_frame){
			.index = index,
			.start = rte_pktmbuf_mtod(mbuf, char *) - chunk,
			.len = mbuf->data_len,
		};
	}
	am_leave(pool);
	return taken;
}

/* The mbuf of a frame, with one more reference for the driver. NULL: the frame is in flight with other
 * bytes. */
static inline struct rte_mbuf *lend(struct am_pool *pool, const struct am_frame *frame)
{
	struct rte_mbuf *mbuf = am_mbuf(pool, frame->index);
	uint16_t offset = pool->base + (size_t)frame->index * pool->stride + frame->start - (char *)mbuf->buf_addr;
	if (unlikely(pool->sends[frame->index] != 0)) {
		if (mbuf->data_off != offset || mbuf->data_len != frame->len)
			return NULL;
		rte_mbuf_refcnt_update(mbuf, 1);
	} else {
		mbuf->data_off = offset;
		mbuf->data_len = frame->len;
		mbuf->pkt_len = frame->len;
		mbuf->ol_flags = 0;
	}
	pool->sends[frame->index]++;
	return mbuf;
}

/* The driver did not take it. */
static void take_back(struct am_pool *pool, uint32_t index, struct rte_mbuf *mbuf)
{
	if (--pool->sends[index] != 0)
		rte_pktmbuf_free(mbuf);
}

uint16_t am_tx(uint16_t port, struct am_pool *pool, const struct am_frame *frames, uint16_t count)
{
	struct rte_mbuf *mbufs[BURST];
	uint16_t ready = 0;
	am_enter(pool);
	count = RTE_MIN(count, BURST);
	while (ready < count) {
		mbufs[ready] = lend(pool, &frames[ready]);
		if (unlikely(mbufs[ready] == NULL))
			break;
		ready++;
	}
	uint16_t sent = rte_eth_tx_burst(port, QUEUE, mbufs, ready);
	/* From the last on: a frame that is in flight twice returns its second reference before its first. */
	for (uint16_t i = ready; i > sent; i--)
		take_back(pool, frames[i - 1].index, mbufs[i - 1]);
	am_leave(pool);
	return sent;
}

static uint16_t send_copies(uint16_t port, struct am_pool *pool, const struct am_frame *frames, uint16_t count)
{
	struct rte_mbuf *mbufs[BURST];
	count = RTE_MIN(count, BURST);
	if (rte_pktmbuf_alloc_bulk(pool->mempool, mbufs, count) != 0)
		return 0;
	for (uint16_t i = 0; i < count; i++) {
		const struct am_frame *frame = &frames[i];
		const char *bytes = pool->base + (size_t)frame->index * pool->stride + frame->start;
		mbufs[i]->data_len = frame->len;
		mbufs[i]->pkt_len = frame->len;
		rte_memcpy(rte_pktmbuf_mtod(mbufs[i], char *), bytes, frame->len);
	}
	uint16_t sent = rte_eth_tx_burst(port, QUEUE, mbufs, count);
	if (sent < count)
		rte_pktmbuf_free_bulk(mbufs + sent, count - sent);
	return sent;
}

uint16_t am_tx_copy(uint16_t port, struct am_pool *pool, const struct am_frame *frames, uint16_t count)
{
	am_enter(pool);
	uint16_t sent = send_copies(port, pool, frames, count);
	am_leave(pool);
	return sent;
}

int am_tx_done(uint16_t port, struct am_pool *pool, bool nudge)
{
	struct rte_mbuf *none = NULL;
	am_enter(pool);
	int result = nudge ? rte_eth_tx_burst(port, QUEUE, &none, 0) : rte_eth_tx_done_cleanup(port, QUEUE, 0);
	am_leave(pool);
	return result;
}
