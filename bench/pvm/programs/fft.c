/* A two-dimensional Fourier transform of 1152 x 1152 complex numbers, slice by slice: a master and several slaves.
 *
 *   master                      slaves
 *     | a band of rows --------> | transform each row; send each other slave its slice of it
 *     |                          | have whole columns then; transform each column
 *     | <------- its columns --- |
 *
 * The time is of one transform, from before the first band is sent until the last columns have arrived. Some values of the result are compared with the sum
 * that defines them.
 */
#include "tasks.h"

#include <complex.h>
#include <math.h>

enum { N = 1152, READY = 1, BAND = 2, SLICE = 3, COLUMNS = 4, END = 5, MOST_SLAVES = 64, REPEATS = 3, CHECKED = 4 };

typedef double complex number;

static number roots[N];

/* The transform of n numbers, each `step` behind the one before it. Times that n are N / `scale`. */
static void transform(int n, int step, const number *in, number *out)
{
    int radix = n % 2 == 0 ? 2 : 3, part = n / radix, scale = N / n;
    number of[3];
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    for (int k = 0; k < radix; k++)
        transform(part, step * radix, in + k * step, out + k * part);
    for (int j = 0; j < part; j++) {
        for (int k = 0; k < radix; k++)
            of[k] = out[k * part + j] * roots[k * j * scale];
        if (radix == 2) {
            out[j] = of[0] + of[1];
            out[j + part] = of[0] - of[1];
            continue;
        }
        for (int q = 0; q < 3; q++)
            out[q * part + j] = of[0] + of[1] * roots[q * (N / 3)] + of[2] * roots[2 * q % 3 * (N / 3)];
    }
}

static void find_roots(void)
{
    for (int i = 0; i < N; i++)
        roots[i] = cexp(-2 * I * M_PI * i / N);
}

static void *room(size_t numbers)
{
    void *room = malloc(numbers * sizeof(number));
    if (!room) {
        fprintf(stderr, "fft: no memory\n");
        exit(1);
    }
    return room;
}

static void give(int to, int tag, const number *numbers, int count)
{
    pvm_psend(to, tag, (void *)numbers, count * (int)sizeof(number), PVM_BYTE);
}

static void take(int from, int tag, number *numbers, int count)
{
    pvm_precv(from, tag, numbers, count * (int)sizeof(number), PVM_BYTE, NULL, NULL, NULL);
}

static void be_slave(int master, int slaves)
{
    int tids[MOST_SLAVES], own = 0, band = N / slaves, repeats;
    number *rows = room((size_t)band * N), *columns = room((size_t)band * N), line[N];
    pvm_recv(master, END);
    pvm_upkint(tids, slaves, 1);
    while (tids[own] != pvm_mytid())
        own++;
    /* PVM loses the order of messages while a direct route opens under load. */
    for (int i = 1; i < slaves; i++)
        give(tids[(own + i) % slaves], READY, line, 0);
    for (int i = 1; i < slaves; i++)
        take(tids[(own + i) % slaves], READY, line, 0);
    give(master, READY, line, 0);
    for (repeats = 0; repeats < REPEATS; repeats++) {
        take(master, BAND, rows, band * N);
        for (int row = 0; row < band; row++) {
            transform(N, 1, rows + row * N, line);
            for (int i = 0; i < slaves; i++) {
                int to = (own + i) % slaves;
                if (to != own)
                    give(tids[to], SLICE, line + to * band, band);
                else
                    for (int column = 0; column < band; column++)
                        columns[column * N + own * band + row] = line[own * band + column];
            }
        }
        for (int i = 1; i < slaves; i++) {
            int from = (own + i) % slaves;
            for (int row = 0; row < band; row++) {
                take(tids[from], SLICE, line, band);
                for (int column = 0; column < band; column++)
                    columns[column * N + from * band + row] = line[column];
            }
        }
        for (int column = 0; column < band; column++)
            transform(N, 1, columns + column * N, rows + column * N);
        give(master, COLUMNS, rows, band * N);
    }
    pvm_recv(master, END);
}

/* The number at this place of the input. */
static number input(int row, int column)
{
    uint32_t x = (uint32_t)(row * N + column) * 2654435761u;
    x ^= x >> 15;
    return (double)(x & 1023) / 1024 + I * (double)(x >> 10 & 1023) / 1024;
}

/* `result` has its columns one behind the other. */
static void check(const number *data, const number *result)
{
    for (int i = 0; i < CHECKED; i++) {
        int u = 97 * i + i, v = 1151 - 311 * i;
        number sum = 0;
        for (int row = 0; row < N; row++) {
            number of_row = 0;
            for (int column = 0; column < N; column++)
                of_row += data[row * N + column] * roots[v * column % N];
            sum += of_row * roots[u * row % N];
        }
        if (cabs(sum - result[v * N + u]) > 1e-6 * N) {
            fprintf(stderr, "fft: the value at %d, %d is wrong\n", u, v);
            exit(1);
        }
    }
}

static void be_master(char **argv, int slaves)
{
    int tids[MOST_SLAVES], band = N / slaves;
    number *data = room((size_t)N * N), *result = room((size_t)N * N);
    uint64_t times[REPEATS];
    for (int i = 0; i < N * N; i++)
        data[i] = input(i / N, i % N);
    start(argv, slaves, tids);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(tids, slaves, 1);
    pvm_mcast(tids, slaves, END);
    for (int i = 0; i < slaves; i++)
        take(tids[i], READY, result, 0);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        uint64_t begin = now();
        for (int i = 0; i < slaves; i++)
            give(tids[i], BAND, data + i * band * N, band * N);
        for (int i = 0; i < slaves; i++)
            take(tids[i], COLUMNS, result + i * band * N, band * N);
        times[repeat] = now() - begin;
        check(data, result);
    }
    pvm_initsend(PvmDataDefault);
    pvm_mcast(tids, slaves, END);
    print_times("fft", N, times, REPEATS);
}

int main(int argc, char **argv)
{
    int slaves = argc == 2 ? atoi(argv[1]) : 0, master;
    if (slaves < 1 || slaves > MOST_SLAVES || N % slaves != 0) {
        fprintf(stderr, "fft: SLAVES, which divide %d\n", N);
        return 2;
    }
    if (pvm_mytid() < 0)
        return 1;
    set_route();
    find_roots();
    master = pvm_parent();
    if (master == PvmNoParent)
        be_master(argv, slaves);
    else
        be_slave(master, slaves);
    pvm_exit();
    return 0;
}
