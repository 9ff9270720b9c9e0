/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Decides where a frame goes: the twin of wire::steer::steer(), function by function. tests/root_all/differential.rs
 * gives both the same frames.
 */
#pragma once

#include "kernel.h"
#include "wire.h"

/* A decision: reason or socket in the lowest byte, then the action, the queue of a socket, and the place of a group. */
#define PASS(why) (0x100 | (why))
#define DROP(why) (0x200 | (why))
#define SOCKET(index) (0x300 | (index))
#define BOUNCE(index) (0x400 | (index))
#define CONTROL(index) (0x500 | (index))
#define SEQUENCE(place) ((__u32)(place) << 24 | 0x600)
#define BOUND_TO(queue) ((__u32)(queue) << 16)

#define IS_SOCKET(decision) (((decision) >> 8 & 0xff) == 3)
#define IS_BOUNCE(decision) (((decision) >> 8 & 0xff) == 4)
#define IS_CONTROL(decision) (((decision) >> 8 & 0xff) == 5)
#define IS_SEQUENCE(decision) (((decision) >> 8 & 0xff) == 6)
#define IS_PASS(decision) ((decision) >> 8 == 1)
#define DETAIL(decision) ((decision)&0xff)
#define QUEUE(decision) ((decision) >> 16)
#define PLACE(decision) ((decision) >> 24)

/* A test builds this with a wrong mask, to see that the comparison finds it. */
#ifndef FLOW_MASK
#define FLOW_MASK (FLOW_COUNT - 1)
#endif

#define SOCKETS 256

/* Fixed when the program is loaded: the verifier sees constants. */
struct config {
	__u32 own_high; /* this node's address as it stands in a frame: 4 bytes, 2 bytes */
	__u16 own_low;
	__u16 hidden; /* the EtherTypes as they stand in a frame: of bare and split, of plain */
	__u16 plain;
	__u16 counts_redirected; /* count redirected frames as well: off where speed matters */
	__u32 lost;		 /* lose this many of 2^32 frames for a socket, at random: for tests */
};

/* The reject template of a flow: am_wire::bounce::RejectTemplate. */
struct reject_template {
	__u8 start[START_BYTES]; /* of its rejects, without the sequence number */
	__u8 framing;		 /* 1 bare, 2 split, 3 plain; 0: no template */
	__u8 zero[5];
};

/* User space maps it, and changes it while the program runs. Its first 24 bytes are read for each frame. */
struct table {
	/* Of usual frames (usual.h); 1, which no frame has, while every frame is to take the longer way. */
	__u64 usual_to;
	__u16 usual_type; /* their EtherType, as it stands in a frame */
	__u16 node;	  /* the entry of the node's socket */
	__u32 rx_full;	  /* no room for requests: they bounce on flows with a reject template */
	__u32 unknown_flow; /* the last unknown flow that a frame named; 0: none since user space looked */
	__u16 plain_type;   /* the EtherType of usual frames in plain */
	__u16 zero;
	/*
	 * Low byte: the index of the flow's socket, plus one; 0: no such flow, as flow 0.
	 * High byte: the receive queue to which that socket is bound. One entry for both costs one cache line.
	 */
	__u16 flows[FLOW_COUNT];
	struct reject_template reject_templates[FLOW_COUNT];
	__u64 known[GATE_SOURCES]; /* for each bucket of the gate, the last known address in it */
};

/*
 * Added addresses, as they stand in a frame: those of nodes behind this one, which decides about flows itself. Their
 * frames go to the node's socket (0), or to the socket of a queue that was lent to the address: an entry as in
 * table.flows, for frames on that queue.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ADDED_ADDRESSES);
	__type(key, __u64);
	__type(value, __u32);
} added SEC(".maps");

/* The groups that the node has joined, by their id as it stands in a frame: an entry as in table.flows, and above it the place. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GROUPS);
	__type(key, __u64);
	__type(value, __u32);
} groups SEC(".maps");

/* The first 60 bytes of a frame; every field is aligned. */
struct frame {
	__u32 to_high;
	__u16 to_low;
	__u16 from_high;
	__u32 from_low;
	__u16 ethertype;
	__u8 payload[SMALLEST_BYTES - ETHERNET_BYTES];
};

_Static_assert(sizeof(struct frame) == SMALLEST_BYTES, "the frame has no gaps");
_Static_assert(__builtin_offsetof(struct frame, payload) == ETHERNET_BYTES, "the payload is where it belongs");

/* Whether an address, as a number, carries a header: the local bit is set, the group bit is not. */
static inline int has_header(__u64 address)
{
	return (address >> GROUP_BIT & 3) == 1 << (LOCAL_BIT - GROUP_BIT);
}

/* The 46 bits of header in such an address. */
static inline __u64 header_bits(__u64 address)
{
	__u64 below = (1ull << GROUP_BIT) - 1;

	return address >> (LOCAL_BIT + 1) << GROUP_BIT | (address & below);
}

static inline int is_own(const struct frame *frame, const volatile struct config *config)
{
	return frame->to_high == config->own_high && frame->to_low == config->own_low;
}

/* For this node, or for a group. */
static inline int is_addressed(const struct frame *frame, const volatile struct config *config)
{
	return is_own(frame, config) || from_be32(frame->to_high) >> (GROUP_BIT - 16) & 1;
}

/* For a node behind this one: its entry, or a null pointer. */
static inline const __u32 *find_added(const struct frame *frame)
{
	__u64 to = frame->to_high | (__u64)frame->to_low << 32;

	return bpf_map_lookup_elem(&added, &to);
}

/* Whether the frame is a probe, with which discovery finds out whether the network learns addresses. */
static inline int is_probe(const struct frame *frame)
{
	__u64 to = (__u64)from_be32(frame->to_high) << 16 | from_be16(frame->to_low);
	__u64 bits = header_bits(to);

	return has_header(to) && bits >> VERSION_SHIFT == VERSION_SPLIT &&
	       (bits >> SPLIT_FLOW_SHIFT & FLOW_MASK) == FLOW_NODE;
}

/* The parts of the header that steering needs. */
struct found {
	__u32 field;
	__u32 code; /* of an extended kind */
	__u32 flow;
	__u32 length; /* the length code: wire::length */
	__u32 is_bare;
};

/* The result of find() and find_*(): this, or a DROP(). */
#define FOUND 0

static inline __u32 find_kind(const struct found *found)
{
	if (likely(found->field < FIELD_EXTENDED))
		return FOUND;
	return found->field == FIELD_EXTENDED && found->code <= CODE_GET ? FOUND : DROP(REASON_KIND);
}

/* Only plain frames can be of a group. */
static inline int is_group(const struct found *found)
{
	return found->field == FIELD_EXTENDED && found->code == CODE_GROUP;
}

static inline __u32 length_code(__u8 form, __u8 low)
{
	return (form & 7) << 8 | low;
}

static inline __u32 find_plain(const struct frame *frame, struct found *found)
{
	const __u8 *rest = frame->payload;

	if (rest[PLAIN_VERSION_AT] != VERSION_PLAIN)
		return DROP(REASON_VERSION);
	found->field = rest[PLAIN_FORM_AT] >> FORM_KIND_SHIFT;
	found->code = rest[PLAIN_CODE_AT];
	found->flow = rest[PLAIN_FLOW_AT] << 8 | rest[PLAIN_FLOW_AT + 1];
	found->length = length_code(rest[PLAIN_FORM_AT], rest[PLAIN_LENGTH_AT]);
	if (find_kind(found) != FOUND && !is_group(found))
		return find_kind(found);
	return found->flow < FLOW_COUNT ? FOUND : DROP(REASON_NO_FLOW);
}

static inline __u32 find_bare(__u64 bits, struct found *found)
{
	__u32 form = bits >> BARE_FORM_SHIFT & 0xf;

	found->is_bare = 1;
	found->code = bits >> BARE_CODE_SHIFT & 0xff;
	found->flow = bits >> BARE_FLOW_SHIFT & FLOW_MASK;
	found->length = bits >> BARE_LENGTH_SHIFT & 0x7f;
	if (likely((form & (BARE_FORM_REPLY - 1)) <= HEAD_WORDS)) {
		found->field = form & BARE_FORM_REPLY ? FIELD_REPLY : FIELD_REQUEST;
		return FOUND;
	}
	found->field = FIELD_EXTENDED;
	return form == BARE_FORM_EXTENDED ? find_kind(found) : DROP(REASON_KIND);
}

static inline __u32 find_hidden(const struct frame *frame, struct found *found)
{
	__u64 from = (__u64)from_be16(frame->from_high) << 32 | from_be32(frame->from_low);
	__u64 bits = header_bits(from);

	if (!has_header(from))
		return DROP(REASON_SOURCE);
	if (likely(!(bits >> BARE_VERSION_SHIFT)))
		return find_bare(bits, found);
	if (bits >> VERSION_SHIFT != VERSION_SPLIT)
		return DROP(REASON_VERSION);
	found->field = frame->payload[SPLIT_FORM_AT] >> FORM_KIND_SHIFT;
	found->code = frame->payload[SPLIT_CODE_AT];
	found->flow = bits >> SPLIT_FLOW_SHIFT & FLOW_MASK;
	found->length = length_code(frame->payload[SPLIT_FORM_AT], frame->payload[SPLIT_LENGTH_AT]);
	return find_kind(found);
}

/* wire::length::Lengths::fits() */
static inline int fits(const struct found *found, __u32 length)
{
	__u32 units = found->is_bare ? NARROW_UNITS : WIDE_UNITS;
	__u32 others = found->is_bare ? NARROW_OTHERS : WIDE_OTHERS;

	if (found->length == LENGTH_SHORT)
		return length == SMALLEST_BYTES;
	if (length % LENGTH_UNIT == 0)
		return found->length == 1 + length / LENGTH_UNIT % units;
	return found->length == 1 + units + length % others;
}

/* wire::Kind::is_request() */
static inline int is_request(const struct found *found)
{
	if (found->field != FIELD_EXTENDED)
		return found->field == FIELD_REQUEST;
	return found->code == CODE_BUNDLE_REQUESTS || found->code == CODE_PUT || found->code == CODE_GET;
}

static inline __u32 find(const struct frame *frame, const volatile struct config *config, struct found *found)
{
	return frame->ethertype == config->plain ? find_plain(frame, found) : find_hidden(frame, found);
}

/*
 * A flow's index into the table. The compiler knows that a flow is less than FLOW_COUNT, and removes a mask. The
 * verifiers of 5.10 and 6.1 have lost this bound when the index is used. A mask in assembly stays.
 */
static inline __u64 flow_index(__u32 flow)
{
	__u64 index = flow;

	asm volatile("%0 &= %1" : "+r"(index) : "i"(FLOW_COUNT - 1));
	return index;
}

/* The decision for a table entry with a socket. */
static inline __u32 to_entry(__u16 entry)
{
	return SOCKET((entry & 0xff) - 1) | BOUND_TO(entry >> 8);
}

/* The flow's socket, or a reject. */
static inline __u32 to_flow(const struct found *found, const struct table *table)
{
	__u64 flow = flow_index(found->flow);
	__u16 entry = table->flows[flow];

	if (!likely(entry))
		return DROP(REASON_NO_FLOW);
	if (!likely(!table->rx_full) && is_request(found) && table->reject_templates[flow].framing)
		return (to_entry(entry) & ~0xff00u) | BOUNCE(0);
	return to_entry(entry);
}

static inline __u32 to_socket(const struct found *found, __u32 length, const struct table *table)
{
	int is_control = found->field == FIELD_EXTENDED && found->code == CODE_CONTROL;

	if (likely(found->flow != FLOW_NODE)) {
		if (is_control)
			return DROP(REASON_NODE_FLOW);
		return likely(fits(found, length)) ? to_flow(found, table) : DROP(REASON_LENGTH);
	}
	if (!is_control)
		return DROP(REASON_NODE_FLOW);
	if (!fits(found, length))
		return DROP(REASON_LENGTH);
	return (to_entry(table->node) & ~0xff00u) | CONTROL(0);
}

/* A frame of a group. A short frame has no room for a group header. */
static inline __u32 to_group(const struct frame *frame, const struct found *found, __u32 length)
{
	const __u8 *bytes = (const __u8 *)frame;
	__u64 id = *(const __u64 *)(bytes + GROUP_HEADER_AT);
	__u32 what = bytes[GROUP_WHAT_AT];
	const __u32 *joined;

	if (found->flow != FLOW_NODE)
		return DROP(REASON_NODE_FLOW);
	if (!fits(found, length))
		return DROP(REASON_LENGTH);
	if (frame->payload[PLAIN_FORM_AT] >> FORM_WORDS_SHIFT & 7)
		return DROP(REASON_WORDS);
	if (length < GROUP_HEADER_AT + GROUP_HEADER_BYTES || what > GROUP_DATAGRAM)
		return DROP(REASON_BODY);
	joined = bpf_map_lookup_elem(&groups, &id);
	if (!joined)
		return DROP(REASON_NO_GROUP);
	if (what == GROUP_TO_STAMP)
		return to_entry(*joined) ^ SOCKET(0) ^ SEQUENCE(*joined >> 16);
	return to_entry(*joined);
}

/* A frame to an added address. Who has a lent queue has a gate of its own. */
static inline __u32 to_node(const struct found *found, __u32 length, const struct table *table, __u32 lent, __u32 queue)
{
	int is_control = found->field == FIELD_EXTENDED && found->code == CODE_CONTROL;

	if (is_control != (found->flow == FLOW_NODE))
		return DROP(REASON_NODE_FLOW);
	if (!fits(found, length))
		return DROP(REASON_LENGTH);
	if (lent && lent >> 8 == queue)
		return to_entry(lent);
	if (is_control)
		return (to_entry(table->node) & ~0xff00u) | CONTROL(0);
	return to_entry(table->node);
}

/*
 * The length of a whole frame. Programs for frames in one piece cannot call bpf_xdp_get_buff_len(). The others avoid
 * subtracting pointers, which needs CAP_PERFMON.
 */
static inline __u64 length_of(struct xdp_md *ctx, int pieces)
{
	return pieces ? bpf_xdp_get_buff_len(ctx) : (void *)(long)ctx->data_end - (void *)(long)ctx->data;
}

/* Where a frame goes. */
static inline __u32 decide(struct xdp_md *ctx, int pieces, const volatile struct config *config,
			   const struct table *table)
{
	const void *data = (void *)(long)ctx->data;
	const void *end = (void *)(long)ctx->data_end;
	const struct frame *frame = data;
	struct found found = {};
	const __u32 *behind = 0;
	__u32 refused;
	int addressed;

	if (data + ETHERNET_BYTES > end)
		return PASS(PASS_FOREIGN);
	if (frame->ethertype != config->hidden && frame->ethertype != config->plain)
		return PASS(PASS_FOREIGN);
	addressed = is_addressed(frame, config);
	if (!addressed)
		behind = find_added(frame);
	if (!addressed && !behind && !is_probe(frame))
		return PASS(PASS_OTHER_HOST);
	if (data + SMALLEST_BYTES > end)
		return DROP(REASON_SHORT);
	refused = find(frame, config, &found);
	if (refused)
		return refused;
	if (is_group(&found) && addressed)
		return to_group(frame, &found, length_of(ctx, pieces));
	if (is_group(&found))
		return behind ? DROP(REASON_NODE_FLOW) : PASS(PASS_OTHER_HOST);
	if (behind)
		return to_node(&found, length_of(ctx, pieces), table, *behind, ctx->rx_queue_index);
	if (!addressed && found.flow != FLOW_NODE)
		return PASS(PASS_OTHER_HOST);
	return to_socket(&found, length_of(ctx, pieces), table);
}
