/* Declarations that the files of this directory share. */
#ifndef AM_INTERNAL_H
#define AM_INTERNAL_H

#include <rte_spinlock.h>

#include "shim.h"

_Static_assert(sizeof(struct am_frame) == 12 && sizeof(struct am_counts) == 8 && sizeof(struct am_memory) == 24,
	       "as in src/abi.rs");

struct am_pool {
	struct am_counts counts; /* first, because the other side reads it */
	rte_spinlock_t lock;     /* drivers have their own threads */
	uint32_t frames, stride;
	uint64_t reciprocal;     /* of the stride in lines: see am_index() */
	char *base;              /* where chunk 0 starts */
	char *first;             /* the first mbuf */
	struct rte_mempool *mempool;
	uint32_t *sends;         /* for each frame: handles that a driver is sending */
	bool *blank;             /* for each frame: whether it is a receive buffer */
	uint32_t *blanks;        /* stack of receive buffers that no driver has */
	struct am_frame *home;   /* stack of sent frames that the other side has not taken back */
	bool *torn;              /* for each frame, constant: whether a device sees it at two separate addresses */
	uint32_t room;           /* bytes of a frame, as asked for */
	int socket;
	struct am_pool *next;    /* list of unused pools */
};

/* spare.c */
struct am_pool *am_spare_take(uint32_t frames, uint32_t room, int socket);
void am_spare_put(struct am_pool *pool);
/* Empty the list, to free the memory of all of them. */
struct am_pool *am_spare_all(void);

/* Chunks are whole cache lines long. */
#define AM_LINE 64

/* A division by the chunk size, done as a multiplication because the size is known only at run time. It
 * is exact while lines * lines-per-chunk is below 2^32, which am_pool_make() checks. */
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
