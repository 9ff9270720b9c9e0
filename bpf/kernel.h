/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The few lines of the kernel's interface that our programs use. With them the build needs clang and no headers. All of
 * it is stable (include/uapi/linux/bpf.h), and the names are the kernel's.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef long long __s64;

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

enum { XDP_DROP = 1, XDP_PASS = 2, XDP_TX = 3 };

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_DEVMAP = 14,
	BPF_MAP_TYPE_XSKMAP = 17,
};

enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_F_BROADCAST = 1 << 3 };

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_xdp_adjust_tail)(struct xdp_md *ctx, int delta) = (void *)65;
static long (*const bpf_tail_call)(void *ctx, void *programs, __u32 index) = (void *)12;
static __u32 (*const bpf_get_prandom_u32)(void) = (void *)7;
static __u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *ctx) = (void *)188;
static long (*const bpf_check_mtu)(void *ctx, __u32 ifindex, __u32 *mtu, int difference, __u64 flags) = (void *)163;
static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 on_miss) = (void *)51;

/* A map is declared by a struct in ".maps", and described only by its type information. */
#define __uint(name, value) int(*name)[value]
#define __type(name, type) typeof(type) *name

#define SEC(name) __attribute__((section(name), used))
#define inline inline __attribute__((always_inline))
#define likely(condition) __builtin_expect(!!(condition), 1)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define from_be16(number) __builtin_bswap16(number)
#define from_be32(number) __builtin_bswap32(number)
#define from_be64(number) __builtin_bswap64(number)
#define from_le64(number) (number)
#else
#define from_be16(number) (number)
#define from_be32(number) (number)
#define from_be64(number) (number)
#define from_le64(number) __builtin_bswap64(number)
#endif
