/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Sends a stamped frame to each member by itself, where the network does not multiply the frames of a group. The kernel's broadcast to a
 * device map puts as many copies as the map has entries into the transmit queue of one interface, and this program gives each its address.
 *
 *	stamped frame ──▶ bpf_redirect_map(copies, BPF_F_BROADCAST) ──▶ queue of the own interface ──▶ copy_frame() ──▶ a member
 *
 * All entries name one interface, and the kernel runs one program for all that waits in its queue (the first entry's). So a copy cannot know
 * its entry. But copies of a frame wait one behind the other, on one processor: counting them is enough.
 */
#pragma once

#include "sequence.h"

/* A test builds this with a wrong value, to see that the comparison finds it. */
#ifndef FIRST_COPY
#define FIRST_COPY 0
#endif

/* An entry of a device map. */
struct device {
	__u32 index;
	__u32 program;
};

/* User space keeps as many entries as a message has copies. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, SENDERS);
	__type(key, __u32);
	__type(value, struct device);
} copies SEC(".maps");

/* The message that this processor copies, and how many copies it has made. */
struct copying {
	__u64 number;
	__u32 epoch;
	__u32 made;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct copying);
} copying SEC(".maps");

static inline __u64 copy_address(const struct stamps *stamps, __u32 place)
{
	__u64 index = place;

	asm volatile("%0 &= %1" : "+r"(index) : "i"(SENDERS - 1));
	return place < SENDERS ? LOAD(stamps->copies[index]) : 0;
}

/* The receiver of the next copy. A message that comes again begins anew after the last one. */
static inline __u64 next_copy(struct copying *copying, const struct stamps *stamps, const struct group_header *header)
{
	__u64 to;

	if (copying->number != header->number || copying->epoch != header->epoch) {
		copying->number = header->number;
		copying->epoch = header->epoch;
		copying->made = FIRST_COPY;
	}
	to = copy_address(stamps, copying->made++);
	if (to)
		return to;
	copying->made = 1;
	return copy_address(stamps, 0);
}

static inline struct stamps *stamps_of(const struct group_header *header)
{
	__u64 id = header->group;
	const __u32 *joined = bpf_map_lookup_elem(&groups, &id);
	__u32 place;

	if (!joined)
		return 0;
	place = *joined >> 16;
	return bpf_map_lookup_elem(&stamps, &place);
}

/* Address a copy. What another program has sent on is left alone. */
static inline int copy_frame(struct xdp_md *ctx, const volatile struct config *config)
{
	__u8 *data = (void *)(long)ctx->data;
	struct frame *frame = (void *)data;
	struct group_header *header = (void *)(data + GROUP_HEADER_AT);
	struct copying *state;
	struct stamps *stamps;
	__u32 only = 0;
	__u64 to;

	if (data + GROUP_HEADER_AT + GROUP_HEADER_BYTES > (__u8 *)(long)ctx->data_end)
		return XDP_PASS;
	if (frame->ethertype != config->plain || frame->payload[PLAIN_CODE_AT] != CODE_GROUP)
		return XDP_PASS;
	stamps = stamps_of(header);
	state = bpf_map_lookup_elem(&copying, &only);
	if (!stamps || !state)
		return XDP_DROP;
	to = next_copy(state, stamps, header);
	if (!to)
		return XDP_DROP;
	write_to(frame, to);
	return XDP_PASS;
}
