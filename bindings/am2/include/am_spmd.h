/* Processes of one job: rank, size, the others' names. They are started by am-run, by mpirun, prterun or `srun --mpi=pmix`
 * (docs/am-run.md); a process that nobody started so is rank 0 of 1. Call AM_Init first, in each process.
 *
 * AM2_SpmdMap, AM2_SpmdBarrier and AM2_SpmdExchange return when all processes have called them. They poll all bundles
 * meanwhile, so handlers run. No handler may call them. It needs what am.h needs: C99 or C++11. */
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

/* Give all processes these bytes, as many from each, at most 1 GiB. `all` has room for those of all ranks. */
int AM2_SpmdExchange(const void *own, size_t nbytes, void *all);

/* End the job on purpose: all processes get SIGTERM, this one too, and SIGKILL two seconds later, and the job's exit code is this one, 0 to
 * 255. It returns when the launcher knows, and the program then exits. A process that exits with 0 by itself does not end the others.
 * Alone there is nothing to end. Any thread and any handler may call it, also while another call waits for the others. */
int AM2_SpmdEndJob(int code);

#ifdef __cplusplus
}
#endif

#endif
