/* Passes DPDK's messages, line by line, to a function of ours. */

#define _GNU_SOURCE
#include <stdio.h>

#include <rte_log.h>

#include "shim.h"

static am_log sink;

static ssize_t line(void *cookie, const char *text, size_t length)
{
	size_t end = length;
	while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == '\r'))
		end--;
	if (end > 0)
		sink((uint32_t)RTE_MAX(rte_log_cur_msg_loglevel(), 1), text, end);
	return (ssize_t)length;
}

int am_log_to(am_log log)
{
	sink = log;
	FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = line});
	if (stream == NULL)
		return -ENOMEM;
	setvbuf(stream, NULL, _IOLBF, 1024);
	return rte_openlog_stream(stream);
}

int am_error(void)
{
	return rte_errno > 0 ? -rte_errno : -EIO;
}
