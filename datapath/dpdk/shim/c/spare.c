/* Unused pools, kept for the next user of a pool of the same shape.
 *
 * Some drivers never free a little of DPDK's memory when they are closed (memif of 22.11: interrupt handles, some
 * 25 KiB each). That lies between the pools. If pools were freed, the memory would soon be fragmented, and no piece
 * would be large enough for a pool. */

#include "internal.h"

static struct am_pool *spares;
static rte_spinlock_t lock = RTE_SPINLOCK_INITIALIZER; /* any thread may return the last frame of a pool */

static bool is_alike(const struct am_pool *pool, uint32_t frames, uint32_t room, int socket)
{
	return pool->frames == frames && pool->room == room && pool->socket == socket;
}

struct am_pool *am_spare_take(uint32_t frames, uint32_t room, int socket)
{
	rte_spinlock_lock(&lock);
	struct am_pool **at = &spares;
	while (*at != NULL && !is_alike(*at, frames, room, socket))
		at = &(*at)->next;
	struct am_pool *found = *at;
	if (found != NULL)
		*at = found->next;
	rte_spinlock_unlock(&lock);
	return found;
}

void am_spare_put(struct am_pool *pool)
{
	rte_spinlock_lock(&lock);
	pool->next = spares;
	spares = pool;
	rte_spinlock_unlock(&lock);
}

struct am_pool *am_spare_all(void)
{
	rte_spinlock_lock(&lock);
	struct am_pool *all = spares;
	spares = NULL;
	rte_spinlock_unlock(&lock);
	return all;
}
