/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host under simulated adapters whose packets go by shared memory: processes that run in turns,
 * connections between them, and memory that they share. It is the system (near/system.h) of the
 * real near path.
 *
 * A process is a fiber. It may be interrupted wherever another process could see or change what it
 * shares: before a counter of a ring is written and after one is read, between the mark, the look
 * at the board and the access, within the access, at every message, and where it waits. The seed
 * draws where it is, for how long, and where it is killed.
 *
 * Two judges are here, as only the host sees everything: packets leave a ring as they went in, once
 * and in order; and a process that sleeps has nothing to do (near_kernel_judge()).
 */
#pragma once

#include "near/near.h"
#include "sim/roce/roce_world.h"
#include "sim/world/fiber.h"
#include "sim/world/world.h"

enum { NEAR_NODES_MAX = 3, NEAR_PROCESSES_MAX = 32, NEAR_RINGS_MAX = 256 };

struct near_kernel;
struct near_memory;

struct near_process {
	struct near_kernel *kernel;
	struct fiber *fiber;
	struct world_alarm alarm; /* when it goes on; its event is the scenario's */
	uint32_t pid, node;
	struct near *near; /* NULL: it does not listen */
	struct near_board *board;
	struct near_marks *marks;
	uint8_t *memory; /* at the address */
	uint64_t memory_addr, memory_bytes;
	bool is_dead, is_running, is_asleep;
	uint32_t masks;	  /* not 0: it cannot be killed now */
	bool is_sending;  /* packets may be in a ring without their wake-up */
	bool is_taking;	  /* the same of room */
	bool has_packets; /* by the network */
	bool is_poked;	  /* by the other process's program */
	/* By its yields, those within accesses, and its yields; UINT64_MAX: not. */
	uint64_t dies_at, dies_accessing_at, breaks_at;
	uint64_t yields, accessing;
	struct list links, waiting; /* the latter are to be accepted */
	void *owner;
};

/* What the seed draws. */
struct near_host_options {
	uint32_t switch_ppm, stop_ppm; /* of a yield: another process may run; for long */
	uint32_t refuse_ppm;	       /* of an offer */
	uint32_t ring_bytes;	       /* at most */
	bool can_access;	       /* whether processes may access each other's memory */
};

struct near_kernel {
	struct roce_world *failures;
	struct world *world;
	struct prng prng; /* its own */
	struct near_host_options options;
	struct near_process *processes[NEAR_PROCESSES_MAX]; /* by pid, from 1 on */
	uint32_t process_count;
	struct near_memory *rings[NEAR_RINGS_MAX];
	uint32_t ring_count;
	/* How often that happened; the last two: packets without room, and runs. */
	uint64_t accesses, wakes, refusals, deaths, breaks, fulls, runs;
	/* The scenario's: a process accesses memory of another one now. */
	void (*accessed)(struct near_process *target, uint64_t addr, uint64_t bytes);
	/* One is killed, or breaks a rule; within its own fiber. */
	void (*died)(struct near_process *p);
	void (*broke)(struct near_process *p);
};

extern const struct near_system near_simulated;

/* The rest of the process, and of the kernel, is the scenario's to set. */
void near_process_begin(struct near_kernel *k, struct near_process *p, void (*run)(void *owner));

/* After its near path has gone. */
void near_process_end(struct near_process *p);
void near_kernel_fini(struct near_kernel *k);

/* The alarm of a process has come. */
void near_process_resume(struct near_process *p);

/* ---- Within the process --------------------------------------------------------------------- */

/* Others may run; others run until then. */
void near_yield(struct near_process *p);
void near_pause(struct near_process *p, uint64_t pause_ns);

/* Until a message or packet comes, or that time. */
void near_sleep(struct near_process *p, uint64_t until_ns);
void near_wake(struct near_process *p);

/* The program at the other end has news: the process does not sleep before it has looked again. */
void near_poke(struct near_process *p);

/* Looks at its connections. */
void near_poll_links(struct near_process *p);

/* A packet is in the room of a ring, or was taken out of one. */
void near_packet_in(struct near_process *p, const struct ib_out *out);
void near_packet_out(struct near_process *p, const struct ib_in *in);

/* Whether a process that lives has packets to take. */
bool near_kernel_is_flowing(const struct near_kernel *k);

/* Whether a ring is mapped in which a rule was broken: its packets may be lost. */
bool near_kernel_is_broken(const struct near_kernel *k);

/* ---- Judges --------------------------------------------------------------------------------- */

/* No process sleeps while something waits for it. */
void near_kernel_judge(struct near_kernel *k);
