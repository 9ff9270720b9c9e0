/* What the files of this directory share. */
#ifndef AM_INTERNAL_H
#define AM_INTERNAL_H

#include <rte_spinlock.h>

#include "shim.h"

struct am_pool {
	struct am_counts counts; /* first: it is what the other side sees */
	rte_spinlock_t lock;     /* drivers have threads of their own */
	uint32_t frames, stride;
	uint64_t reciprocal;     /* of the stride in lines: see am_index() */
	char *base;              /* where chunk 0 starts */
	char *first;             /* and its mbuf */
	struct rte_mempool *mempool;
	uint32_t *sends;         /* by frame: handles that a driver sends */
	bool *blank;             /* by frame: whether it is for drivers to receive into */
	uint32_t *blanks;        /* a stack of those that no driver has */
	struct am_frame *home;   /* a stack of those that were sent */
	bool *torn;              /* by frame: whether it is in two places to a device; for good */
	uint32_t room;           /* bytes of a frame that were asked for */
	int socket;
	struct am_pool *next;    /* of those that nobody uses */
};

/* spare.c */
struct am_pool *am_spare_take(uint32_t frames, uint32_t room, int socket);
void am_spare_put(struct am_pool *pool);
/* All of them, for who wants their memory: none is kept then. */
struct am_pool *am_spare_all(void);

/* Chunks are whole cache lines long. */
#define AM_LINE 64

/* A division by a number that is known only when the pool is made, as a multiplication: exact while
 * lines * lines-per-chunk is below 2^32, which am_pool_make() sees to. */
static inline uint32_t am_index(const struct am_pool *pool, const struct rte_mbuf *mbuf)
{
	uint64_t lines = (uint64_t)((const char *)mbuf - pool->first) / AM_LINE;
	return (uint32_t)((lines * pool->reciprocal) >> 32);
}

static inline struct rte_mbuf *am_mbuf(const struct am_pool *pool, uint32_t index)
{
	return (struct rte_mbuf *)(pool->first + (size_t)index * pool->stride);
}

#endif
