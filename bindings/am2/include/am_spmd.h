/* Processes of one job: rank, size, the others' names. They are started by am-run, by mpirun, prterun or `srun --mpi=pmix`
 * (docs/am-run.md); a process that nobody started so is rank 0 of 1. Call AM_Init first, in each process.
 *
 * AM2_SpmdMap, AM2_SpmdBarrier and AM2_SpmdExchange return when all processes have called them. They poll all bundles
 * meanwhile, so handlers run. No handler may call them. */
#ifndef AM2_AM_SPMD_H
#define AM2_AM_SPMD_H

#include "am.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The process's number from 0, and the number of processes; -1 before AM_Init. */
int AM2_SpmdRank(void);
int AM2_SpmdSize(void);

/* Map the endpoints of all processes, this one's included: the endpoint that rank i gave has index i. */
int AM2_SpmdMap(ep_t endpoint, tag_t tag);

/* Wait for all. */
int AM2_SpmdBarrier(void);

/* Give all processes these bytes, as many from each, at most 65536. `all` has room for those of all ranks. */
int AM2_SpmdExchange(const void *own, size_t nbytes, void *all);

#ifdef __cplusplus
}
#endif

#endif
