/* What of DPDK is C's business: the functions that its headers define inline, and the pool that hands
 * out our frames. Read pool.c first: it has the drawing. */
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

/* The next three are `Frame`, `Counts` and `Log` of src/abi.rs. */

/* A frame on its way over the border: its number, and where in its chunk its bytes are. */
struct am_frame {
	uint32_t index, start, len;
};

/* What the other side reads without a call. */
struct am_counts {
	uint32_t blanks; /* frames that a driver may take to receive into */
	uint32_t home;   /* entries that am_home() would give */
};

/* One message of DPDK's, without a newline; level as in rte_log.h, 1 the worst. */
typedef void (*am_log)(uint32_t level, const char *text, size_t length);

struct am_pool;

/* pool.c */
int am_pool_register(void);
struct am_pool *am_pool_make(const char *name, uint32_t frames, uint32_t room, int socket);
void am_pool_free(struct am_pool *pool);
struct am_counts *am_pool_counts(struct am_pool *pool);
struct rte_mempool *am_pool_mempool(struct am_pool *pool);
/* The first byte, bytes from one chunk to the next, and from its start to a frame's first. */
char *am_pool_base(struct am_pool *pool);
uint32_t am_pool_stride(struct am_pool *pool);
uint32_t am_pool_headroom(struct am_pool *pool);
/* Whether a frame is in two places to a device: no driver may have it. */
bool am_is_torn(struct am_pool *pool, uint32_t index);
/* Frames for drivers to receive into. */
void am_give(struct am_pool *pool, const uint32_t *indices, uint32_t count);
/* Some of them back; returns how many. */
uint32_t am_take_back(struct am_pool *pool, uint32_t *indices, uint32_t most);
/* Frames that were sent: numbers, and how many handles of each; returns how many entries. */
uint32_t am_home(struct am_pool *pool, struct am_frame *out, uint32_t most);
/* Handles on a frame that are still here. Only once no driver has any: nothing is here afterwards. */
uint32_t am_recall(struct am_pool *pool, uint32_t index);

/* burst.c: returns how many frames. What makes no sense is dropped and counted in `odd`. */
uint16_t am_rx(uint16_t port, struct am_pool *pool, struct am_frame *out, uint16_t most, uint32_t *odd);
uint16_t am_tx(uint16_t port, struct am_pool *pool, const struct am_frame *frames, uint16_t count);
/* The same with copies of them, in blanks. */
uint16_t am_tx_copy(uint16_t port, struct am_pool *pool, const struct am_frame *frames, uint16_t count);
/* Have the driver give back what it has sent, or else send nothing, for those that do it then (others
 * may fall over it). Below 0: it does not know how. */
int am_tx_done(uint16_t port, bool nudge);

/* log.c */
int am_log_to(am_log log);
int am_errno(void);

#endif
