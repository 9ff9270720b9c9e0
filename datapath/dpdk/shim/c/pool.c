/* A mempool whose objects are our frames.
 *
 *   chunk i:  | mempool's header | rte_mbuf | driver's headroom | the frame, from its destination on |
 *             base + i*stride                                   base + i*stride + headroom
 *
 * An mbuf never leaves its chunk, so a frame and its mbuf have the same index. The owners of a frame:
 *
 *      the program ── am_give ──▶ pool->blanks ─ driver allocates ──▶ driver ── am_rx ──▶ the program
 *            │                        ▲────────── driver frees ──────────┘
 *            ├── am_tx ──▶ driver sends it ── driver frees ──▶ pool->home ── am_home ──▶ the program
 *
 * The blanks are empty frames, to receive into. DPDK calls the operations of the mempool: "dequeue" takes a receive
 * buffer (a blank), "enqueue" returns a frame of either kind. A frame queued twice is one mbuf with two references.
 *
 * One thread at a time uses the pool: the lists have no lock. Drivers have threads of their own as well, which free mbufs
 * when a peer has gone. What such a thread frees goes to pool->away, which has a lock, and the user collects it when it
 * enters the next time.
 *
 * No memory is allocated after the pool is made. */

#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define OPS "am_pool"

/* An mbuf is free again. */
static inline void come_back(struct am_pool *pool, uint32_t index)
{
	uint32_t handles = pool->sends[index];
	if (handles != 0) {
		pool->sends[index] = 0;
		pool->home[pool->counts.home++] = (struct am_frame){.index = index, .len = handles};
	} else {
		pool->blanks[pool->counts.blanks++] = index;
	}
}

void am_collect(struct am_pool *pool)
{
	rte_spinlock_lock(&pool->lock);
	while (pool->away_count > 0)
		come_back(pool, pool->away[--pool->away_count]);
	rte_spinlock_unlock(&pool->lock);
}

/* On a thread of a driver. */
static __rte_noinline void put_away(struct am_pool *pool, void *const *objects, unsigned int count)
{
	rte_spinlock_lock(&pool->lock);
	for (unsigned int i = 0; i < count; i++)
		pool->away[pool->away_count++] = am_index(pool, objects[i]);
	rte_spinlock_unlock(&pool->lock);
}

/* On a thread of a driver: a receive buffer that such a thread has returned. */
static __rte_noinline int get_away(struct am_pool *pool, void **objects, unsigned int count)
{
	rte_spinlock_lock(&pool->lock);
	uint32_t left = pool->away_count, found = 0;
	while (found < count && left > 0 && pool->sends[pool->away[left - 1]] == 0)
		objects[found++] = am_mbuf(pool, pool->away[--left]);
	if (found == count)
		pool->away_count = left;
	rte_spinlock_unlock(&pool->lock);
	return found == count ? 0 : -ENOBUFS;
}

static int put(struct rte_mempool *mempool, void *const *objects, unsigned int count)
{
	struct am_pool *pool = mempool->pool_data;
	if (unlikely(pool->base == NULL))
		return 0; /* the mempool is being made, and enqueues each object once */
	if (unlikely(!am_is_user(pool))) {
		put_away(pool, objects, count);
		return 0;
	}
	for (unsigned int i = 0; i < count; i++)
		come_back(pool, am_index(pool, objects[i]));
	return 0;
}

static int get(struct rte_mempool *mempool, void **objects, unsigned int count)
{
	struct am_pool *pool = mempool->pool_data;
	if (unlikely(!am_is_user(pool)))
		return get_away(pool, objects, count);
	if (unlikely(pool->counts.blanks < count))
		return -ENOBUFS;
	for (unsigned int i = 0; i < count; i++)
		objects[i] = am_mbuf(pool, pool->blanks[--pool->counts.blanks]);
	return 0;
}

static unsigned int available(const struct rte_mempool *mempool)
{
	const struct am_pool *pool = mempool->pool_data;
	return pool->counts.blanks;
}

static int alloc(struct rte_mempool *mempool)
{
	mempool->pool_data = mempool->pool_config;
	return 0;
}

static void nothing(struct rte_mempool *mempool)
{
}

static size_t object(const struct rte_mempool *mempool)
{
	return mempool->header_size + mempool->elt_size + mempool->trailer_size;
}

/* All objects follow each other in one piece of memory, so a frame's address is computed from its index. */
static ssize_t size(const struct rte_mempool *mempool, uint32_t count, uint32_t page, size_t *least, size_t *align)
{
	*least = count * object(mempool) + RTE_CACHE_LINE_SIZE;
	*align = RTE_CACHE_LINE_SIZE;
	return *least;
}

/* The address at which a device finds a byte of this page of DPDK. */
static rte_iova_t device_address(const struct rte_memseg *page, const char *byte)
{
	if (page == NULL || page->iova == RTE_BAD_IOVA)
		return RTE_BAD_IOVA;
	return page->iova + (byte - (const char *)page->addr);
}

/*
 * Memory that is contiguous for the program is not contiguous for a device without an IOMMU, because huge pages lie
 * anywhere. A frame that crosses two of them is torn: no device may send or receive it. This applies with an IOMMU as
 * well, because QEMU's igb seems not to send such a frame.
 */
static int populate(struct rte_mempool *mempool, unsigned int max_objects, void *memory, rte_iova_t iova, size_t length,
		    rte_mempool_populate_obj_cb_t *add, void *argument)
{
	struct am_pool *pool = mempool->pool_data;
	size_t stride = object(mempool);
	if (max_objects < pool->frames || length < stride * pool->frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < pool->frames; i++) {
		char *at = (char *)memory + i * stride + mempool->header_size;
		size_t last = stride - mempool->header_size - 1;
		const struct rte_memseg *page = rte_mem_virt2memseg(at, NULL);
		pool->torn[i] = rte_eal_has_hugepages() && rte_mem_virt2memseg(at + last, NULL) != page;
		add(mempool, argument, at, device_address(page, at));
	}
	pool->first = (char *)memory + mempool->header_size;
	return pool->frames;
}

static const struct rte_mempool_ops ops = {
	.name = OPS,
	.alloc = alloc,
	.free = nothing,
	.enqueue = put,
	.dequeue = get,
	.get_count = available,
	.calc_mem_size = size,
	.populate = populate,
};

int am_pool_register(void)
{
	int index = rte_mempool_register_ops(&ops);
	return index < 0 ? index : 0;
}

static void give_memory_back(struct rte_mempool_memhdr *memory, void *zone)
{
	rte_memzone_free(zone);
}

/* rte_mempool_populate_default() would require memory that is contiguous for the device as well. */
static int take_memory(struct rte_mempool *mempool, const char *name, int socket)
{
	size_t least, align;
	size(mempool, mempool->size, 0, &least, &align);
	const struct rte_memzone *zone = rte_memzone_reserve_aligned(name, least, socket, 0, align);
	if (zone == NULL)
		return -rte_errno;
	int result = rte_mempool_populate_iova(mempool, zone->addr, RTE_BAD_IOVA, zone->len, give_memory_back, (void *)zone);
	if (result < 0)
		rte_memzone_free(zone);
	return result;
}

static int make_mempool(struct am_pool *pool, const char *name, uint32_t room, int socket)
{
	struct rte_pktmbuf_pool_private private = {.mbuf_data_room_size = RTE_PKTMBUF_HEADROOM + room};
	/* Without spreading objects over memory channels, which would make the stride irregular. */
	unsigned int flags = RTE_MEMPOOL_F_NO_SPREAD;
	uint32_t element = RTE_ALIGN_CEIL(sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM + room, AM_LINE);
	struct rte_mempool *mempool =
		rte_mempool_create_empty(name, pool->frames, element, 0, sizeof(private), socket, flags);
	pool->mempool = mempool;
	if (mempool == NULL)
		return -rte_errno;
	int result = rte_mempool_set_ops_byname(mempool, OPS, pool);
	if (result != 0)
		return result;
	rte_pktmbuf_pool_init(mempool, &private);
	result = take_memory(mempool, name, socket);
	if (result < 0)
		return result;
	pool->stride = object(mempool);
	pool->base = pool->first - mempool->header_size;
	return 0;
}

static int check_stride(struct am_pool *pool)
{
	uint64_t lines = pool->stride / AM_LINE;
	if (pool->stride % AM_LINE != 0 || lines * pool->frames * lines >= UINT32_MAX)
		return -EINVAL;
	pool->reciprocal = ((1ull << 32) + lines - 1) / lines;
	return 0;
}

static bool make_tables(struct am_pool *pool)
{
	pool->sends = calloc(pool->frames, sizeof(*pool->sends));
	pool->blank = calloc(pool->frames, sizeof(*pool->blank));
	pool->blanks = calloc(pool->frames, sizeof(*pool->blanks));
	pool->home = calloc(pool->frames, sizeof(*pool->home));
	pool->away = calloc(pool->frames, sizeof(*pool->away));
	pool->torn = calloc(pool->frames, sizeof(*pool->torn));
	return pool->sends && pool->blank && pool->blanks && pool->home && pool->away && pool->torn;
}

static void destroy(struct am_pool *pool)
{
	rte_mempool_free(pool->mempool);
	free(pool->torn);
	free(pool->away);
	free(pool->home);
	free(pool->blanks);
	free(pool->blank);
	free(pool->sends);
	free(pool);
}

static struct am_pool *make(const char *name, uint32_t frames, uint32_t room, int socket)
{
	struct am_pool *pool = calloc(1, sizeof(*pool));
	if (pool == NULL) {
		rte_errno = ENOMEM;
		return NULL;
	}
	pool->frames = frames;
	pool->room = room;
	pool->socket = socket;
	rte_spinlock_init(&pool->lock);
	int result = make_tables(pool) ? make_mempool(pool, name, room, socket) : -ENOMEM;
	if (result == 0)
		result = check_stride(pool);
	if (result < 0) {
		destroy(pool);
		rte_errno = -result;
		return NULL;
	}
	return pool;
}

/* Reset a pool that had another user. */
static void clean(struct am_pool *pool)
{
	pool->counts = (struct am_counts){0};
	pool->away_count = 0;
	memset(pool->sends, 0, pool->frames * sizeof(*pool->sends));
	memset(pool->blank, 0, pool->frames * sizeof(*pool->blank));
	rte_mempool_obj_iter(pool->mempool, rte_pktmbuf_init, NULL);
	/* The Rust side may read a whole frame, so it must be initialised. */
	for (uint32_t i = 0; i < pool->frames; i++)
		memset((char *)am_mbuf(pool, i) + sizeof(struct rte_mbuf), 0, RTE_PKTMBUF_HEADROOM + pool->room);
}

static bool destroy_spares(void)
{
	struct am_pool *next, *pool = am_spare_all();
	bool any = pool != NULL;
	for (; pool != NULL; pool = next) {
		next = pool->next;
		destroy(pool);
	}
	return any;
}

int am_pool_make(const char *name, uint32_t frames, uint32_t room, int socket, struct am_memory *memory)
{
	struct am_pool *pool = am_spare_take(frames, room, socket);
	if (pool == NULL)
		pool = make(name, frames, room, socket);
	/* The unused pools may hold the memory that is missing. */
	if (pool == NULL && destroy_spares())
		pool = make(name, frames, room, socket);
	if (pool == NULL)
		return am_error();
	clean(pool);
	*memory = (struct am_memory){
		.pool = pool,
		.base = pool->base,
		.stride = pool->stride,
		.headroom = pool->mempool->header_size + sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM,
	};
	return 0;
}

void am_pool_free(struct am_pool *pool)
{
	am_spare_put(pool);
}

int am_open(uint16_t port, struct am_pool *pool, uint16_t rx, uint16_t tx, unsigned int socket)
{
	/* Drivers take their receive buffers here. */
	am_enter(pool);
	int result = rte_eth_rx_queue_setup(port, QUEUE, rx, socket, NULL, pool->mempool);
	if (result >= 0)
		result = rte_eth_tx_queue_setup(port, QUEUE, tx, socket, NULL);
	if (result >= 0)
		result = rte_eth_dev_start(port);
	am_leave(pool);
	return result;
}

bool am_is_torn(struct am_pool *pool, uint32_t index)
{
	return pool->torn[index];
}

void am_give(struct am_pool *pool, const uint32_t *indices, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		pool->blank[indices[i]] = true;
		pool->blanks[pool->counts.blanks++] = indices[i];
	}
}

uint32_t am_take_back(struct am_pool *pool, uint32_t *indices, uint32_t most)
{
	uint32_t count = RTE_MIN(most, pool->counts.blanks);
	for (uint32_t i = 0; i < count; i++) {
		indices[i] = pool->blanks[--pool->counts.blanks];
		pool->blank[indices[i]] = false;
	}
	return count;
}

uint32_t am_home(struct am_pool *pool, struct am_frame *out, uint32_t most)
{
	uint32_t count = RTE_MIN(most, pool->counts.home);
	pool->counts.home -= count;
	memcpy(out, pool->home + pool->counts.home, count * sizeof(*out));
	return count;
}

uint32_t am_recall(struct am_pool *pool, uint32_t index)
{
	uint32_t handles = pool->sends[index] + pool->blank[index];
	pool->sends[index] = 0;
	pool->blank[index] = false;
	return handles;
}
