/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ranks of MPI: mpi_pair SIZE DEPTH COUNT WARM. With DEPTH 1 the ranks send a message to and
 * fro COUNT times. Else the first sends COUNT messages in windows of DEPTH, each of which the
 * second answers by an empty message. Prints `mpi_pair: NS MESSAGES`: nanoseconds of half a round
 * trip, or 0, and messages a second. The bench compiles it with mpicc: nothing of weft is in it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 1024 };

struct pair {
	int rank;
	char *bytes;
	int size, depth;
};

/* Round trips. */
static void to_and_fro(const struct pair *p, int count)
{
	for (int i = 0; i < count; i++) {
		if (p->rank == 0)
			MPI_Send(p->bytes, p->size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(p->bytes, p->size, MPI_CHAR, 1 - p->rank, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		if (p->rank == 1)
			MPI_Send(p->bytes, p->size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
	}
}

static void window(const struct pair *p)
{
	MPI_Request requests[DEPTH_MAX];

	for (int i = 0; i < p->depth; i++) {
		if (p->rank == 0)
			MPI_Isend(p->bytes, p->size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[i]);
		else
			MPI_Irecv(p->bytes, p->size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[i]);
	}
	MPI_Waitall(p->depth, requests, MPI_STATUSES_IGNORE);
	if (p->rank == 0)
		MPI_Recv(NULL, 0, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(NULL, 0, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
}

static void run(const struct pair *p, int count)
{
	if (p->depth == 1)
		to_and_fro(p, count);
	for (int left = count; p->depth > 1 && left > 0; left -= p->depth)
		window(p);
}

int main(int argc, char **argv)
{
	struct pair p = { 0 };
	int count, messages;
	double seconds;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
	if (argc != 5 || atoi(argv[1]) < 0 || atoi(argv[2]) < 1 || atoi(argv[2]) > DEPTH_MAX)
		MPI_Abort(MPI_COMM_WORLD, 2);
	p.size = atoi(argv[1]);
	p.depth = atoi(argv[2]);
	count = atoi(argv[3]);
	p.bytes = malloc((size_t)p.size + 1);
	if (!p.bytes)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(p.bytes, 85, (size_t)p.size); /* pages of its own */
	run(&p, atoi(argv[4]));
	MPI_Barrier(MPI_COMM_WORLD);
	seconds = MPI_Wtime();
	run(&p, count);
	seconds = MPI_Wtime() - seconds;
	messages = (count + p.depth - 1) / p.depth * p.depth;
	if (p.rank == 0)
		printf("mpi_pair: %.1f %.1f\n", p.depth == 1 ? seconds / messages / 2 * 1e9 : 0,
		       messages / seconds);
	free(p.bytes);
	MPI_Finalize();
	return 0;
}
