/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Reads a frame without asking for its length. */
#include "decide.h"

const volatile struct config config;

SEC("xdp.frags") int steer_probe(struct xdp_md *ctx)
{
	return *(const __u8 *)(long)ctx->data + config.own_high;
}

SEC("license") const char LICENSE[] = "Dual MIT/GPL";
