/* Declarations that the files of this directory share. */
#ifndef AM_INTERNAL_H
#define AM_INTERNAL_H

#include <rte_spinlock.h>

#include "shim.h"

_Static_assert(sizeof(struct am_frame) == 12 && sizeof(struct am_counts) == 8 && sizeof(struct am_memory) == 24,
	       "as in src/abi.rs");

struct am_pool {
	struct am_counts counts; /* first, because the other side reads it */
	uint32_t frames, stride;
	uint64_t reciprocal;     /* of the stride in lines: see am_index() */
	char *base;              /* where chunk 0 starts */
	char *first;             /* the first mbuf */
	void *user;              /* the thread that is in a call of this library for this pool; NULL: none */
	struct rte_mempool *mempool;
	uint32_t *sends;         /* for each frame: handles that a driver is sending */
	bool *blank;             /* for each frame: whether it is a receive buffer */
	uint32_t *blanks;        /* stack of receive buffers that no driver has */
	struct am_frame *home;   /* stack of sent frames that the other side has not taken back */
	rte_spinlock_t lock;     /* of the next two */
	uint32_t away_count;
	uint32_t *away;          /* stack of frames that other threads have freed and the user has not collected */
	bool *torn;              /* for each frame, constant: whether a device sees it at two separate addresses */
	uint32_t room;           /* bytes of a frame, as asked for */
	int socket;
	struct am_pool *next;    /* list of unused pools */
};

/* pool.c */
/* Take back what other threads have freed. */
void am_collect(struct am_pool *pool);

/* spare.c */
struct am_pool *am_spare_take(uint32_t frames, uint32_t room, int socket);
void am_spare_put(struct am_pool *pool);
/* Empty the list, to free the memory of all of them. */
struct am_pool *am_spare_all(void);

/* One receive and one transmit queue. */
#define QUEUE 0

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

/* This thread uses the pool from here on, alone: drivers that it calls need no lock. */
static inline void am_enter(struct am_pool *pool)
{
	__atomic_store_n(&pool->user, __builtin_thread_pointer(), __ATOMIC_RELAXED);
	if (unlikely(__atomic_load_n(&pool->away_count, __ATOMIC_RELAXED) != 0))
		am_collect(pool);
}

static inline void am_leave(struct am_pool *pool)
{
	__atomic_store_n(&pool->user, NULL, __ATOMIC_RELAXED);
}

/* Whether this thread has entered. Another one never reads its own name there. */
static inline bool am_is_user(const struct am_pool *pool)
{
	return __atomic_load_n(&pool->user, __ATOMIC_RELAXED) == __builtin_thread_pointer();
}

#endif
