/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registers far more memory than the process may have, and a peer reads all of it. The program is
 * its own pager: an access to a page that is away raises WEFT_EVENT_FAULT and waits, the program
 * brings the page into a frame, in place of another page, and the access goes on.
 *
 *	$ paged --size 4G --memory 256M
 *	4096 MiB are registered; the owner may have 256 MiB, of which 192 MiB are frames
 *	4608 of 4608 MiB are read
 *	every byte was right; 73024 faults were served, 69940 pages were taken away for others
 *	pinned: 0 bytes between packets, each of 6330 times; 69632 bytes at most, while they left
 *	the owner had 197 MiB of memory at most
 *
 * The owner is a process of its own, with a limit that the kernel holds it to (RLIMIT_DATA). The
 * peer reads one piece after the other, some of them twice, as what was taken away comes back, and
 * looks at every byte. Where pages come from is the pager's affair: here they are
 * computed, as they might be read from a file or another host.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/roce.h>

enum {
	MIB = 1 << 20,
	PAGE = 64 << 10,
	PIECE = MIB,	  /* what the peer reads at a time */
	SLOTS = 4,	  /* Reads that are under way */
	SPARE = 28 * MIB, /* stacks of weft's threads and what else the owner needs */
	MAPPING = 32,	  /* bytes that an address space has for each page, or less */
	AGAIN = 8,
	PATIENCE_NS = 100 * 1000 * 1000,
	NO_FRAME = -1
};

/* Where the memory is, as the owner's address space has it: the process has nothing there. */
static const uint64_t base = UINT64_C(1) << 40;
static const uint64_t size_max = UINT64_C(64) << 30;

/* What the two processes know of each other, and tell at the end. */
static struct table {
	uint64_t size_bytes, memory_bytes;
	atomic_uint owner_qp, peer_qp; /* 0: not there yet */
	uint32_t tag;		       /* of the owner's memory */
	atomic_bool is_serving, is_over;
	uint64_t frame_bytes, faults, evicted, looks, pinned_seen, peak_bytes;
	struct weft_pins pins;
} * table;

/* Every call says why it was refused. */
static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

static void must_have(bool is_so, const char *what)
{
	if (!is_so) {
		perror(what);
		exit(1);
	}
}

/* What word number i of the registered memory holds. */
static uint64_t word(uint64_t i)
{
	i *= UINT64_C(0x9e3779b97f4a7c15);
	return i ^ i >> 29;
}

/* How often the peer reads, and which piece: behind each eight one of long before. */
static uint64_t reads(void)
{
	uint64_t pieces = table->size_bytes / PIECE;

	return pieces + pieces / AGAIN;
}

static uint64_t piece_of(uint64_t read)
{
	uint64_t round = read / (AGAIN + 1), step = read % (AGAIN + 1);

	return step == AGAIN ? round * AGAIN / 2 : round * AGAIN + step;
}

static struct weft_adapter *adapter_open(void)
{
	const struct weft_adapter_options small = { .tags_max = 64, .translations_max = 64 };
	struct weft_adapter *adapter;

	must(weft_adapter_open(&small, &adapter), "open an adapter");
	must(weft_roce_open(adapter), "open RoCE's port");
	return adapter;
}

static struct weft_qp *qp_open(struct weft_pd *pd, struct weft_cq *cq)
{
	struct weft_qp *qp;

	must(weft_qp_create(pd, &(struct weft_qp_options){ .send_cq = cq, .recv_cq = cq }, &qp),
	     "make a queue pair");
	return qp;
}

static void qp_start(struct weft_qp *qp, const atomic_uint *peer_number)
{
	struct weft_roce_attr how = {
		.path = { .from = { .family = 4, .ip = { 127, 0, 0, 1 } },
			  .to = { .family = 4, .ip = { 127, 0, 0, 1 } },
			  .mtu_bytes = 4096 },
		.reads_in = SLOTS,
		.reads_out = SLOTS,
		.timeout_code = 17, /* half a second */
		.retries = 7,
		.rnr_timer_code = 10,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
	};

	while (atomic_load(peer_number) == 0)
		usleep(1000);
	how.peer_number = atomic_load(peer_number);
	must(weft_qp_to_rtr(qp, &how), "take a queue pair to RTR");
	must(weft_qp_to_rts(qp, &how), "take a queue pair to RTS");
}

/* ---- The owner ------------------------------------------------------------------------------ */

static struct owner {
	struct weft_adapter *adapter;
	struct weft_space *space;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	uint8_t *frames;
	int64_t frame_count, hand; /* the next frame to be used again */
	int64_t *page_in;	   /* of each frame, or NO_FRAME */
	int32_t *frame_of;	   /* of each page, or NO_FRAME */
} owner;

/* A line of /proc/self/status, in bytes. */
static uint64_t memory_now(const char *name)
{
	FILE *f = fopen("/proc/self/status", "re");
	uint64_t kib = 0;
	char line[128];

	must_have(f, "/proc/self/status");
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, name, strlen(name)) == 0)
			kib = strtoull(line + strlen(name), NULL, 10);
	}
	fclose(f);
	return kib << 10;
}

/* As many frames as the limit leaves, behind what the tables of all pages take. */
static void frames_open(uint64_t pages)
{
	const struct rlimit limit = { table->memory_bytes, table->memory_bytes };
	const uint64_t tables = pages * (MAPPING + sizeof(*owner.frame_of));
	uint64_t used, room;

	must_have(setrlimit(RLIMIT_DATA, &limit) == 0, "limit the memory");
	used = memory_now("VmData:") + tables + SPARE;
	room = used < table->memory_bytes ? table->memory_bytes - used : 0;
	owner.frame_count = (int64_t)(room / (PAGE + sizeof(*owner.page_in)));
	if (owner.frame_count < SLOTS) {
		fprintf(stderr, "so little memory leaves no room for pages; %u MiB do\n",
			(unsigned int)(used / MIB + 2));
		exit(1);
	}
	table->frame_bytes = (uint64_t)owner.frame_count * PAGE;
	owner.frames = mmap(NULL, table->frame_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must_have(owner.frames != MAP_FAILED, "frames");
	owner.page_in = malloc((uint64_t)owner.frame_count * sizeof(*owner.page_in));
	owner.frame_of = malloc(pages * sizeof(*owner.frame_of));
	must_have(owner.page_in && owner.frame_of, "tables of pages");
	for (int64_t i = 0; i < owner.frame_count; i++)
		owner.page_in[i] = NO_FRAME;
	for (uint64_t i = 0; i < pages; i++)
		owner.frame_of[i] = NO_FRAME;
}

/* An address space in which no page is there yet, and one region over all of it. */
static void owner_open(void)
{
	const uint64_t pages = table->size_bytes / PAGE;
	struct weft_space_options space = { .mappings_max = (uint32_t)pages, .has_pager = true };
	const struct weft_region_options region = {
		.addr = base,
		.length = table->size_bytes,
		.rights = WEFT_LOCAL_READ | WEFT_REMOTE_READ,
	};

	owner.adapter = adapter_open();
	frames_open(pages);
	space.memory = owner.frames;
	space.size_bytes = table->frame_bytes;
	must(weft_space_create(owner.adapter, &space, &owner.space), "make an address space");
	for (uint64_t i = 0; i < pages; i++)
		must(weft_space_map(owner.space, base + i * PAGE, PAGE, WEFT_REAL_NONE), "map");
	must(weft_pd_create(owner.adapter, &(struct weft_pd_options){ .space = owner.space },
			    &owner.pd),
	     "make a protection domain");
	must(weft_region_register(owner.pd, &region, &table->tag), "register memory");
	must(weft_cq_create(owner.adapter, NULL, &owner.cq), "make a completion queue");
	owner.qp = qp_open(owner.pd, owner.cq);
	atomic_store(&table->owner_qp, weft_qp_number(owner.qp));
	qp_start(owner.qp, &table->peer_qp);
	atomic_store(&table->is_serving, true);
}

/* A frame whose page, if it has one, is away from now on. What is just being sent from stays. */
static int64_t frame_take(void)
{
	for (;;) {
		int64_t frame = owner.hand, page = owner.page_in[frame];
		enum weft_reason r;

		owner.hand = (owner.hand + 1) % owner.frame_count;
		if (page == NO_FRAME)
			return frame;
		r = weft_space_move(owner.space, base + (uint64_t)page * PAGE, WEFT_REAL_NONE);
		if (r == WEFT_R_BUSY)
			continue;
		must(r, "take a page away");
		owner.frame_of[page] = NO_FRAME;
		table->evicted++;
		return frame;
	}
}

static void bring(uint64_t page)
{
	const uint64_t words = PAGE / sizeof(uint64_t);
	uint64_t *to;
	int64_t frame;

	if (owner.frame_of[page] != NO_FRAME)
		return; /* it came meanwhile */
	frame = frame_take();
	to = (uint64_t *)(void *)(owner.frames + frame * PAGE);
	for (uint64_t i = 0; i < words; i++)
		to[i] = word(page * words + i);
	owner.page_in[frame] = (int64_t)page;
	owner.frame_of[page] = (int32_t)frame;
	must(weft_space_move(owner.space, base + page * PAGE, (uint64_t)frame * PAGE), "bring");
	table->faults++;
}

static void serve(void)
{
	struct weft_event event;
	bool has_event;

	must(weft_event_next(owner.adapter, PATIENCE_NS, &event, &has_event), "take an event");
	if (has_event && event.kind == WEFT_EVENT_FAULT)
		bring((event.addr - base) / PAGE);
	else if (has_event && event.kind == WEFT_EVENT_QP_ERROR)
		must(event.reason, "the queue pair");
	must(weft_space_query(owner.space, &table->pins), "ask the space");
	table->pinned_seen += table->pins.bytes;
	table->looks++;
}

static void owner_run(void)
{
	owner_open();
	while (!atomic_load(&table->is_over))
		serve();
	table->peak_bytes = memory_now("VmHWM:");
	must(weft_qp_destroy(owner.qp), "destroy the queue pair");
	must(weft_cq_destroy(owner.cq), "destroy the completion queue");
	must(weft_region_deregister(owner.pd, table->tag), "deregister");
	must(weft_pd_destroy(owner.pd), "destroy the protection domain");
	must(weft_space_destroy(owner.space), "destroy the address space");
	must(weft_adapter_close(owner.adapter), "close the adapter");
}

/* ---- The peer ------------------------------------------------------------------------------- */

static struct {
	pid_t pid;
	bool is_over;
	int status;
} owner_process;

/* Whether the other process has ended, and not well. */
static bool owner_has_failed(int how)
{
	if (!owner_process.is_over &&
	    waitpid(owner_process.pid, &owner_process.status, how) == owner_process.pid)
		owner_process.is_over = true;
	return owner_process.is_over && owner_process.status != 0;
}

/* The buffer has a place for each Read that is under way. */
static void post_read(struct weft_qp *qp, uint64_t read, const struct weft_sge *buffer)
{
	const struct weft_sge to = { buffer->addr + read % SLOTS * PIECE, PIECE, buffer->tag };
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_READ,
		.flags = WEFT_SIGNALLED,
		.sges = &to,
		.sge_count = 1,
		.remote_addr = base + piece_of(read) * PIECE,
		.remote_tag = table->tag,
	};

	must(weft_qp_post_send(qp, &wr, 1, NULL), "post a Read");
}

static bool is_right(const uint64_t *words, uint64_t piece)
{
	const uint64_t count = PIECE / sizeof(*words);
	bool is_same = true;

	for (uint64_t i = 0; i < count; i++)
		is_same &= words[i] == word(piece * count + i);
	return is_same;
}

/* Rewritten on a terminal; else a line for each quarter. */
static void progress(uint64_t done, uint64_t all)
{
	if (isatty(STDOUT_FILENO))
		printf("\r%" PRIu64 " of %" PRIu64 " MiB are read%s", done, all,
		       done == all ? "\n" : "");
	else if (done * 4 / all != (done - 1) * 4 / all)
		printf("%" PRIu64 " of %" PRIu64 " MiB are read\n", done, all);
	fflush(stdout);
}

/* How many Reads were right. */
static uint64_t read_all(struct weft_cq *cq, struct weft_qp *qp, const struct weft_sge *buffer)
{
	uint64_t posted = 0, done = 0, right = 0;

	while (done < reads() && !owner_has_failed(WNOHANG)) {
		struct weft_completion c;
		uint32_t count;

		if (posted < reads() && posted < done + SLOTS) {
			post_read(qp, posted++, buffer);
			continue;
		}
		must(weft_cq_wait(cq, -1, PATIENCE_NS, NULL), "wait");
		must(weft_cq_poll(cq, &c, 1, &count), "poll");
		if (count == 0)
			continue;
		must(c.reason, "a Read");
		right += is_right((const void *)(uintptr_t)(buffer->addr + done % SLOTS * PIECE),
				  piece_of(done));
		progress(++done, reads());
	}
	return right;
}

static bool peer_run(void)
{
	struct weft_adapter *adapter = adapter_open();
	struct weft_region_options region = {
		.length = (uint64_t)SLOTS * PIECE,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
	};
	void *memory = aligned_alloc(PAGE, region.length);
	struct weft_sge buffer = { .addr = (uintptr_t)memory };
	uint64_t right;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;

	must_have(memory, "buffer");
	region.addr = buffer.addr;
	must(weft_pd_create(adapter, NULL, &pd), "make a protection domain");
	must(weft_region_register(pd, &region, &buffer.tag), "register memory");
	must(weft_cq_create(adapter, NULL, &cq), "make a completion queue");
	qp = qp_open(pd, cq);
	atomic_store(&table->peer_qp, weft_qp_number(qp));
	while (atomic_load(&table->owner_qp) == 0 && !owner_has_failed(WNOHANG))
		usleep(1000);
	if (owner_has_failed(WNOHANG))
		return false;
	qp_start(qp, &table->owner_qp);
	while (!atomic_load(&table->is_serving) && !owner_has_failed(WNOHANG))
		usleep(1000);
	printf("%" PRIu64 " MiB are registered; the owner may have %" PRIu64
	       " MiB, of which %" PRIu64 " MiB are frames\n",
	       table->size_bytes / MIB, table->memory_bytes / MIB, table->frame_bytes / MIB);
	right = read_all(cq, qp, &buffer);
	atomic_store(&table->is_over, true);
	return right == reads();
}

/* ---- Both ----------------------------------------------------------------------------------- */

static bool tell(bool is_right_all)
{
	const uint64_t pages = table->size_bytes / PAGE;

	printf("%s; %" PRIu64 " faults were served, %" PRIu64 " pages were taken away for others\n",
	       is_right_all ? "every byte was right" : "NOT every byte was right", table->faults,
	       table->evicted);
	printf("pinned: %" PRIu64 " bytes between packets, each of %" PRIu64 " times; %" PRIu64
	       " bytes at most, while they left\n",
	       table->pinned_seen, table->looks, table->pins.bytes_max);
	printf("the owner had %" PRIu64 " MiB of memory at most\n", table->peak_bytes / MIB);
	if (table->faults <= pages)
		printf("nothing was shown: all pages fit into the memory that was allowed\n");
	return is_right_all && table->faults > pages && table->pinned_seen == 0 &&
	       table->pins.pinned > 0;
}

/* A whole number of MiB, such as 256M or 4G. */
static bool read_size(const char *text, uint64_t *bytes)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);
	unsigned int shift = *end == 'G' ? 30 : *end == 'M' ? 20 : 0;

	if (end == text || shift == 0 || end[1] != '\0' || n == 0 || n > size_max >> shift)
		return false;
	*bytes = n << shift;
	return true;
}

int main(int argc, char **argv)
{
	bool is_good = argc % 2 == 1;

	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	must_have(table != MAP_FAILED, "shared memory");
	table->size_bytes = UINT64_C(4) << 30;
	table->memory_bytes = 256 * MIB;
	for (int i = 1; is_good && i < argc; i += 2) {
		bool is_size = strcmp(argv[i], "--size") == 0;

		is_good = (is_size || strcmp(argv[i], "--memory") == 0) &&
			  read_size(argv[i + 1],
				    is_size ? &table->size_bytes : &table->memory_bytes);
	}
	if (!is_good) {
		fprintf(stderr, "usage: paged [--size N] [--memory N], such as 256M or 4G\n");
		return 2;
	}
	fflush(stdout);
	owner_process.pid = fork();
	must_have(owner_process.pid >= 0, "fork");
	if (owner_process.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		owner_run();
		exit(0);
	}
	is_good = peer_run();
	return !owner_has_failed(0) && tell(is_good) ? 0 : 1;
}
