/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Stamps group frames and sends them on, without waking the host: the twin of am_wire::stamp, function by function. What the paper
 * (Bal et al., 4.2) put into the LANai: sequence numbers, with credits as part of the answer. tests/root_all/sequence.rs gives
 * both the same frames.
 *
 * Atomic operations with a result need kernel 5.12, so only programs for frames in several pieces (5.18) have this.
 */
#pragma once

#include "gate.h"

/* wire::stamp::Refusal, as an outcome of sequence(). */
#define STAMPED 0
#define STAMPED_AGAIN 1
#define REFUSED(why) (2 + (why))

/* A test builds this with wrong values, to see that the comparison finds them. */
#ifndef CREDITS_AT_LEAST
#define CREDITS_AT_LEAST 1
#endif
#ifndef REMEMBERED_MESSAGES
#define REMEMBERED_MESSAGES REMEMBERED
#endif
#ifndef NUMBER_STEP
#define NUMBER_STEP 1
#endif
#ifndef BACK_TO_SENDER
#define BACK_TO_SENDER TO_SENDER
#endif

/* am_wire::stamp::Sender */
struct sender {
	__u64 address;
	__u32 next;
	__u32 limit;
	__u64 numbers[REMEMBERED];
};

/* am_wire::stamp::Stamps */
struct stamps {
	__u64 group;
	__u64 key[2];
	__u64 lease_until;
	__u64 address;
	__u32 epoch;
	__u32 share;
	__u32 capacity;
	__u32 to; /* am_wire::stamp::Destination */
	__u64 recycled;
	__u64 busy;
	__u64 next;
	__s64 pool;
	struct sender senders[SENDERS];
	__u64 copies[SENDERS];
};

/* am_wire::group::GroupHeader, as it is in a frame. */
struct group_header {
	__u64 group;
	__u32 epoch;
	__u8 what;
	__u8 flags;
	__u16 sender;
	__u32 seq;
	__u32 limit;
	__u64 number;
	__u64 content;
	__u64 tag;
};

_Static_assert(sizeof(struct group_header) == GROUP_HEADER_BYTES, "the header has no gaps");

/* User space opens an epoch, renews the lease and recycles credits. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, GROUPS);
	__type(key, __u32);
	__type(value, struct stamps);
} stamps SEC(".maps");

struct stamp {
	__u64 number;
	__u32 limit;
};

/* A load that the compiler neither repeats nor leaves out. */
#define LOAD(place) (*(const volatile typeof(place) *)&(place))

/* Using the result makes it a full barrier on every architecture. */
#define ADD(place, number)                                                                                             \
	({                                                                                                             \
		typeof(place) before = __sync_fetch_and_add(&(place), number);                                         \
		asm volatile("" ::"r"(before));                                                                        \
		before;                                                                                                \
	})

#define ROTATED(word, by) ((word) << (by) | (word) >> (64 - (by)))

static inline void sip_round(__u64 *v)
{
	v[0] += v[1];
	v[1] = ROTATED(v[1], 13) ^ v[0];
	v[0] = ROTATED(v[0], 32);
	v[2] += v[3];
	v[3] = ROTATED(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = ROTATED(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = ROTATED(v[1], 17) ^ v[2];
	v[2] = ROTATED(v[2], 32);
}

static inline void sip_add(__u64 *v, __u64 word)
{
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
}

/* wire::group::GroupHeader::tag_under(): SipHash-2-4 of what is before the tag. */
static inline __u64 tag_under(const __u64 *key, const struct group_header *header)
{
	const __u64 *words = (const __u64 *)header;
	__u64 k0 = LOAD(key[0]), k1 = LOAD(key[1]);
	__u64 v[4] = { k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull, k0 ^ 0x6c7967656e657261ull,
		       k1 ^ 0x7465646279746573ull };
	int i;

	if (!(k0 | k1))
		return 0;
#pragma unroll
	for (i = 0; i < GROUP_TAGGED_BYTES / 8; i++)
		sip_add(v, from_le64(words[i]));
	sip_add(v, (__u64)GROUP_TAGGED_BYTES << 56);
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* wire::stamp::Remembered */
#define NUMBER_MASK ((1ull << REMEMBERED_NUMBER_BITS) - 1)

static inline __u64 remembered_mark(__u32 seq)
{
	return (__u64)(seq / REMEMBERED) << REMEMBERED_NUMBER_BITS;
}

static inline int is_of(__u64 remembered, __u32 seq)
{
	return remembered >> 62 && (remembered & ~(3ull << 62)) >> REMEMBERED_NUMBER_BITS ==
					   remembered_mark(seq) >> REMEMBERED_NUMBER_BITS;
}

/* The mask in assembly keeps the bound of the index for the verifier: see flow_index(). */
static inline __u64 *remembered(struct sender *sender, __u32 seq)
{
	__u64 index = seq;

	asm volatile("%0 &= %1" : "+r"(index) : "i"(REMEMBERED - 1));
	return &sender->numbers[index];
}

static inline struct sender *sender_at(struct stamps *stamps, __u32 place)
{
	__u64 index = place;

	asm volatile("%0 &= %1" : "+r"(index) : "i"(SENDERS - 1));
	return &stamps->senders[index];
}

static inline __s64 take(__s64 *from, __s64 most)
{
	__s64 before = ADD(*from, -most);
	__s64 taken = before < 0 ? 0 : before < most ? before : most;

	if (taken < most)
		ADD(*from, most - taken);
	return taken;
}

static inline void refill(struct stamps *stamps, struct sender *sender, __u32 next)
{
	__u32 share = LOAD(stamps->share);
	__s64 left = (int)(LOAD(sender->limit) - next);

	if (left * 2 >= share || LOAD(stamps->pool) <= 0)
		return;
	ADD(sender->limit, (__u32)take(&stamps->pool, share));
}

static inline __u32 give(struct stamps *stamps, struct sender *sender, __u32 seq, struct stamp *stamp)
{
	__u32 before = seq - 1;

	if ((int)(LOAD(sender->limit) - seq) < CREDITS_AT_LEAST)
		return REFUSED(REFUSAL_CREDIT);
	/* Its number is taken, but perhaps on another processor, and not yet written down. */
	if (!is_of(LOAD(*remembered(sender, before)), before))
		return REFUSED(REFUSAL_GAP);
	/* From here on the message is this processor's. */
	if (__sync_val_compare_and_swap(&sender->next, seq, seq + 1) != seq)
		return REFUSED(REFUSAL_GAP);
	stamp->number = ADD(stamps->next, NUMBER_STEP);
	*(volatile __u64 *)remembered(sender, seq) = 1ull << 62 | remembered_mark(seq) | (stamp->number & NUMBER_MASK);
	return STAMPED;
}

static inline __u32 look_up(struct stamps *stamps, struct sender *sender, __u32 seq, __u32 back, struct stamp *stamp)
{
	__u64 found = LOAD(*remembered(sender, seq)), next;

	if (!is_of(found, seq))
		return REFUSED(back == 1 ? REFUSAL_GAP : REFUSAL_FORGOTTEN);
	if (found >> 62 == 2)
		return REFUSED(REFUSAL_FORGOTTEN);
	/* An addition for its barrier. */
	next = ADD(stamps->next, 0);
	stamp->number = next - ((next - found) & NUMBER_MASK);
	return STAMPED_AGAIN;
}

static inline __u32 stamp_for(struct stamps *stamps, struct sender *sender, __u32 seq, struct stamp *stamp)
{
	__u32 next = LOAD(sender->next), back = next - seq, outcome;

	if (back > REMEMBERED_MESSAGES)
		return REFUSED((int)back < 0 ? REFUSAL_GAP : REFUSAL_FORGOTTEN);
	refill(stamps, sender, next);
	outcome = back ? look_up(stamps, sender, seq, back, stamp) : give(stamps, sender, seq, stamp);
	stamp->limit = LOAD(sender->limit);
	return outcome;
}

/* wire::stamp::find_sender(), and then stamp_for(). */
static inline __u32 stamp_open(struct stamps *stamps, const struct group_header *header, __u64 from, __u64 now,
			       struct stamp *stamp)
{
	__u32 epoch = LOAD(stamps->epoch), place = from_be16(header->sender);
	struct sender *sender;
	__u64 address;

	if (!epoch || from_be32(header->epoch) != epoch)
		return REFUSED(REFUSAL_EPOCH);
	if (now >= LOAD(stamps->lease_until))
		return REFUSED(REFUSAL_LEASE);
	if (place >= SENDERS)
		return REFUSED(REFUSAL_SENDER);
	sender = sender_at(stamps, place);
	address = LOAD(sender->address);
	if (!address)
		return REFUSED(REFUSAL_SENDER);
	if (address != from)
		return REFUSED(REFUSAL_ADDRESS);
	if ((LOAD(stamps->key[0]) | LOAD(stamps->key[1])) && header->tag != from_be64(tag_under(stamps->key, header)))
		return REFUSED(REFUSAL_TAG);
	return stamp_for(stamps, sender, from_be32(header->seq), stamp);
}

/* wire::stamp::destination() */
static inline __u64 destination(const struct stamps *stamps, __u64 from)
{
	return LOAD(stamps->to) == BACK_TO_SENDER ? from : LOAD(stamps->address);
}

static inline __u64 source(const struct frame *frame)
{
	return (__u64)from_be16(frame->from_high) << 32 | from_be32(frame->from_low);
}

static inline void write_to(struct frame *frame, __u64 to)
{
	frame->to_high = from_be32((__u32)(to >> 16));
	frame->to_low = from_be16((__u16)to);
}

/* wire::stamp::stamped() and wire::group::rewrite() */
static inline void write_stamped(__u8 *bytes, const volatile struct config *config, const struct stamps *stamps,
				 const struct stamp *stamp)
{
	struct group_header *header = (void *)(bytes + GROUP_HEADER_AT);
	struct frame *frame = (void *)bytes;
	int i;

	write_to(frame, destination(stamps, source(frame)));
#pragma unroll
	for (i = 0; i < 6; i++)
		bytes[6 + i] = ((const volatile __u8 *)config)[i];
	header->what = GROUP_STAMPED;
	header->limit = from_be32(stamp->limit);
	header->number = from_be64(stamp->number);
	header->tag = from_be64(tag_under(stamps->key, header));
}

/* Stamp the frame, and write it as it is to be sent. It is unchanged if it is refused. */
static inline __u32 sequence(struct xdp_md *ctx, const volatile struct config *config, struct stamps *stamps, __u64 now)
{
	__u8 *data = (void *)(long)ctx->data;
	const struct frame *frame = (void *)data;
	const struct group_header *header = (void *)(data + GROUP_HEADER_AT);
	struct stamp stamp = {};
	__u32 outcome;
	__u64 from;

	if (data + GROUP_HEADER_AT + GROUP_HEADER_BYTES > (__u8 *)(long)ctx->data_end)
		return REFUSED(REFUSAL_NO_GROUP);
	if (LOAD(stamps->group) != from_be64(header->group))
		return REFUSED(REFUSAL_NO_GROUP);
	from = source(frame);
	/* Before the epoch is read: see am_wire::stamp::Stamps::open(). */
	ADD(stamps->busy, 1);
	outcome = stamp_open(stamps, header, from, now, &stamp);
	ADD(stamps->busy, -1);
	if (outcome <= STAMPED_AGAIN)
		write_stamped(data, config, stamps, &stamp);
	return outcome;
}
