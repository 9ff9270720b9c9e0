/* Two ranks of an MPI: rank 0 is near, rank 1 far. See measure.h. */
#include "measure.h"

#include <mpi.h>

enum { TAG = 1, MOST = 64 };

static int other;

static void put(const char *message, int size)
{
    MPI_Send(message, size, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
}

static void get(char *message, int size)
{
    MPI_Recv(message, size, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void put_many(const char *message, int size, int count)
{
    MPI_Request all[MOST];
    MPI_Status statuses[MOST];
    for (int i = 0; i < count; i++)
        MPI_Isend(message, size, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &all[i]);
    MPI_Waitall(count, all, statuses);
}

static void get_many(char *messages, int size, int count)
{
    MPI_Request all[MOST];
    MPI_Status statuses[MOST];
    for (int i = 0; i < count; i++)
        MPI_Irecv(messages + (size_t)i * (size_t)size, size, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &all[i]);
    MPI_Waitall(count, all, statuses);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        fprintf(stderr, "mpi: %d ranks, not two\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    other = 1 - rank;
    measure(rank == 0 ? NEAR : FAR, argc, argv);
    MPI_Finalize();
    return 0;
}
