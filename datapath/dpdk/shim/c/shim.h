/* The parts that need C: the functions that DPDK's headers define inline, and the mempool that hands out
 * our frames. Read pool.c first: it has the drawing. */
#ifndef AM_SHIM_H
#define AM_SHIM_H

#include <stdbool.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

/* The next four types are `Frame`, `Counts`, `Memory` and `Log` of src/abi.rs. */

/* A frame, as it is passed across the ABI: its index, and where in its chunk its bytes are. */
struct am_frame {
	uint32_t index, start, len;
};

/* Counts that the other side reads without a call. */
struct am_counts {
	uint32_t blanks; /* frames that a driver may take to receive into */
	uint32_t home;   /* entries that am_home() would return */
};

struct am_pool;

/* The memory of a pool. */
struct am_memory {
	struct am_pool *pool; /* its first field are its counts */
	char *base;           /* where chunk 0 starts */
	uint32_t stride;      /* bytes from one chunk to the next */
	uint32_t headroom;    /* bytes from a chunk's start to the start of its frame */
};

/* Receives one message of DPDK, without a newline. The level is as in rte_log.h: 1 is the most severe. */
typedef void (*am_log)(uint32_t level, const char *text, size_t length);

/* Of `dev_flags` in rte_eth_dev_info: the header's macro is no constant for bindgen. */
enum am_flag {
	AM_REPORTS_LINK = RTE_ETH_DEV_INTR_LSC,
};

/* pool.c */
int am_pool_register(void);
/* Make a pool of `frames` frames with `room` bytes each. 0, or a negative error number. */
int am_pool_make(const char *name, uint32_t frames, uint32_t room, int socket, struct am_memory *memory);
void am_pool_free(struct am_pool *pool);
/* Set the port's queues up, with receive buffers of the pool, and start it. 0, or a negative error number. */
int am_open(uint16_t port, struct am_pool *pool, uint16_t rx, uint16_t tx, unsigned int socket);
/* Whether a device sees a frame at two separate addresses: no driver may have it. */
bool am_is_torn(struct am_pool *pool, uint32_t index);
/* Give drivers frames to receive into. */
void am_give(struct am_pool *pool, const uint32_t *indices, uint32_t count);
/* Take up to `most` of them back; returns how many. */
uint32_t am_take_back(struct am_pool *pool, uint32_t *indices, uint32_t most);
/* Take back sent frames: their indices, and the number of handles of each; returns how many entries. */
uint32_t am_home(struct am_pool *pool, struct am_frame *out, uint32_t most);
/* Take back all handles on a frame; returns how many. Only after no driver uses the pool. */
uint32_t am_recall(struct am_pool *pool, uint32_t index);

/* burst.c. These return the number of frames. Invalid frames are dropped and counted in `odd`. */
uint16_t am_rx(uint16_t port, struct am_pool *pool, struct am_frame *out, uint16_t most, uint32_t *odd);
uint16_t am_tx(uint16_t port, struct am_pool *pool, const struct am_frame *frames, uint16_t count);
/* Send copies, made in receive buffers. */
uint16_t am_tx_copy(uint16_t port, struct am_pool *pool, const struct am_frame *frames, uint16_t count);
/* Have the driver return sent frames. With `nudge` call it to send nothing instead: some drivers return
 * frames then, others do not support that. Negative: it has no call for it. */
int am_tx_done(uint16_t port, struct am_pool *pool, bool nudge);

/* log.c */
int am_log_to(am_log log);
/* DPDK's `rte_errno`, negated; never 0. */
int am_error(void);

#endif
