/* SPDX-License-Identifier: BSD-2-Clause */
/* What the environment or the program asks to be seen: whose file is whose. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "capture_fixture.h"
#include "driver/tcp/tcp.h"
#include "lone_pages.h"
#include "test.h"
#include "wire/trace_file.h"

static struct weft_adapter *opened(void)
{
	const struct weft_adapter_options small = { .tags_max = 64, .translations_max = 64 };
	struct weft_adapter *a;

	REQUIRE(weft_adapter_open(&small, &a) == WEFT_OK);
	return a;
}

static void close_adapter(struct weft_adapter *a)
{
	REQUIRE(weft_adapter_close(a) == WEFT_OK);
}

/* A connection that is not answered yet. */
struct knocking {
	struct weft_adapter *near;
	struct weft_listener *listener;
	struct weft_request *request;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
};

static void knock_begin(struct knocking *k, struct weft_adapter *near, struct weft_adapter *far)
{
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_qp_options options = { 0 };
	struct weft_event event;
	bool has_event;

	*k = (struct knocking){ .near = near };
	REQUIRE(weft_listener_open(far, &at, NULL, &k->listener) == WEFT_OK);
	REQUIRE(weft_listener_address(k->listener, &at) == WEFT_OK);
	REQUIRE(weft_pd_create(near, NULL, &k->pd) == WEFT_OK);
	REQUIRE(weft_cq_create(near, NULL, &k->cq) == WEFT_OK);
	options.send_cq = k->cq;
	options.recv_cq = k->cq;
	REQUIRE(weft_qp_create(k->pd, &options, &k->qp) == WEFT_OK);
	REQUIRE(weft_qp_dial(k->qp, &at, NULL) == WEFT_OK);
	while (!k->request) {
		REQUIRE(weft_event_next(near, 0, &event, &has_event) == WEFT_OK);
		REQUIRE(weft_listener_next(k->listener, &k->request) == WEFT_OK);
	}
}

static void knock_end(struct knocking *k)
{
	struct weft_event event;
	bool has_event = false;

	REQUIRE(weft_request_reject(k->request, NULL) == WEFT_OK);
	/* Bound: the patience of the connection. */
	while (!has_event || event.kind != WEFT_EVENT_CONNECT_FAILED)
		REQUIRE(weft_event_next(k->near, UINT64_MAX, &event, &has_event) == WEFT_OK);
	REQUIRE(weft_listener_close(k->listener) == WEFT_OK);
	REQUIRE(weft_qp_destroy(k->qp) == WEFT_OK);
	REQUIRE(weft_cq_destroy(k->cq) == WEFT_OK);
	REQUIRE(weft_pd_destroy(k->pd) == WEFT_OK);
}

/* A connection from near to far that is never accepted, until it ends. */
static void knock(struct weft_adapter *near, struct weft_adapter *far)
{
	struct knocking k;

	knock_begin(&k, near, far);
	knock_end(&k);
}

/* How many connections a capture shows. */
static uint32_t connections_in(const char *path)
{
	struct reading r;
	uint32_t count = 0;

	reading_open(&r, path);
	for (size_t i = 0; i < r.count; i++)
		count += r.packets[i].flags == INET_TCP_SYN;
	reading_close(&r);
	return count;
}

static const char *other_path(void)
{
	static char path[600];

	snprintf(path, sizeof(path), "%s.other", capture_path());
	return path;
}

TEST(test_capture_start_and_stop_come_in_turn)
{
	struct weft_adapter *a = opened();

	EXPECT_EQ(weft_capture_start(NULL, capture_path()), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_capture_start(a, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_capture_stop(NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_capture_stop(a), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_capture_start(a, "/no/such/file"), WEFT_R_SYSTEM);
	EXPECT_EQ(weft_capture_start(a, capture_path()), WEFT_OK);
	EXPECT_EQ(weft_capture_start(a, capture_path()), WEFT_R_BUSY);
	EXPECT_EQ(weft_capture_start(a, other_path()), WEFT_R_BUSY);
	EXPECT_EQ(weft_capture_stop(a), WEFT_OK);
	EXPECT_EQ(weft_capture_stop(a), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_capture_start(a, capture_path()), WEFT_OK);
	close_adapter(a);
	EXPECT_EQ(connections_in(capture_path()), 0);
	unlink(capture_path());
}

/* What was sent a moment ago, out of memory that the program has unmapped since. */
TEST(test_capture_takes_no_harm_of_memory_that_has_gone)
{
	enum { HEAD = 20, GONE = 40000, TAIL = 6 };
	static uint8_t ours[HEAD + TAIL];
	struct weft_adapter *a = opened();
	struct record record = {
		.local = { .family = 4, .ip = { 10, 0, 0, 1 }, .port = 1 },
		.remote = { .family = 4, .ip = { 10, 0, 0, 2 }, .port = 2 },
	};
	struct span_list l = { .may_go = true };
	uint8_t *gone = lone_pages(GONE);
	struct stat plain, full;

	REQUIRE(munmap(gone, GONE) == 0);
	memset(ours, 'w', sizeof(ours));
	REQUIRE(weft_capture_start(a, capture_path()) == WEFT_OK);
	record_open(&record, &a->observed, true);
	span_list_add(&l, ours, HEAD);
	span_list_add(&l, gone, GONE);
	span_list_add(&l, ours + HEAD, TAIL);
	REQUIRE(stat(capture_path(), &plain) == 0);
	record_bytes(&record, &l, l.length, true);
	record_bytes(&record, &l, HEAD + 1, true);
	record_close(&record, false);
	close_adapter(a);
	REQUIRE(stat(capture_path(), &full) == 0);
	EXPECT((size_t)(full.st_size - plain.st_size) > l.length + HEAD);
	unlink(capture_path());
}

/* One line of each end in two files, one line for both in one. */
TEST(test_capture_shows_a_connection_once_in_a_file)
{
	struct weft_adapter *near = opened(), *far = opened();

	EXPECT_EQ(weft_capture_start(near, capture_path()), WEFT_OK);
	EXPECT_EQ(weft_capture_start(far, other_path()), WEFT_OK);
	knock(near, far);
	EXPECT_EQ(weft_capture_stop(far), WEFT_OK);
	EXPECT_EQ(connections_in(other_path()), 1);
	EXPECT_EQ(weft_capture_start(far, capture_path()), WEFT_OK);
	knock(near, far);
	EXPECT_EQ(weft_capture_stop(near), WEFT_OK);
	knock(near, far);
	EXPECT_EQ(weft_capture_stop(far), WEFT_OK);
	/* Of near alone, of both, of far alone; and none after that. */
	EXPECT_EQ(connections_in(capture_path()), 3);
	knock(near, far);
	EXPECT_EQ(connections_in(capture_path()), 3);
	close_adapter(near);
	close_adapter(far);
	unlink(capture_path());
	unlink(other_path());
}

/* The adapter's only link ends, and the adapter was interrupted since it looked at the clock. */
static void end_late(struct weft_adapter *a)
{
	pthread_mutex_lock(&a->lock);
	a->net->now_ns -= 1000000000;
	record_end(&CONTAINER_OF(tcp_of(a->net)->links.next, struct link, all_link)->record, true,
		   false);
	pthread_mutex_unlock(&a->lock);
}

TEST(test_capture_of_two_adapters_is_in_the_order_of_its_times)
{
	struct weft_adapter *near = opened(), *first = opened(), *second = opened();
	struct knocking at_first, at_second;
	struct reading r;

	EXPECT_EQ(weft_capture_start(first, capture_path()), WEFT_OK);
	EXPECT_EQ(weft_capture_start(second, capture_path()), WEFT_OK);
	knock_begin(&at_first, near, first);
	knock_begin(&at_second, near, second);
	end_late(first);
	knock_end(&at_second);
	knock_end(&at_first);
	close_adapter(near);
	close_adapter(first);
	close_adapter(second);
	reading_open(&r, capture_path());
	REQUIRE(r.count > 6);
	for (size_t i = 1; i < r.count; i++)
		EXPECT(r.packets[i].time_ns >= r.packets[i - 1].time_ns);
	reading_close(&r);
	unlink(capture_path());
}

TEST(test_capture_of_the_environment_is_not_the_programs_to_stop)
{
	struct weft_adapter *a;

	REQUIRE(setenv("WEFT_PCAP", capture_path(), 1) == 0);
	a = opened();
	EXPECT_EQ(weft_capture_start(a, other_path()), WEFT_R_BUSY);
	EXPECT_EQ(weft_capture_stop(a), WEFT_R_BAD_ARGUMENT);
	knock(a, a);
	close_adapter(a);
	EXPECT_EQ(connections_in(capture_path()), 1);
	/* The next adapter goes on in the same file. */
	a = opened();
	knock(a, a);
	close_adapter(a);
	unsetenv("WEFT_PCAP");
	EXPECT_EQ(connections_in(capture_path()), 2);
	unlink(capture_path());
}

/* ---- Traces --------------------------------------------------------------------------------- */

/*
 * An address and an event for each: they listen, dial, come, reject, fail, end; the one link moves
 * from connecting to set-up to its end, the other from set-up to its end.
 */
enum { KNOCK_RECORDS = 2 * (6 + 3) };

struct traced {
	uint32_t count, adapters; /* records; the last adapter's number */
	uint64_t lost, retired;
	pid_t pid;
};

static void read_trace(const char *path, struct traced *t)
{
	static uint8_t bytes[1 << 20];
	struct trace_file_record record;
	struct trace_file_head head;
	FILE *f = fopen(path, "rb");
	struct rd r;

	REQUIRE(f);
	r = rd_of(bytes, fread(bytes, 1, sizeof(bytes), f));
	fclose(f);
	REQUIRE(trace_file_head_decode(&head, &r));
	*t = (struct traced){ .pid = (pid_t)head.pid };
	while (trace_file_record_decode(&record, &r)) {
		t->count++;
		t->adapters = record.adapter > t->adapters ? record.adapter : t->adapters;
		t->retired += record.event.kind == TRACE_RECV_RETIRED;
		t->lost += record.event.kind == TRACE_LOST ? record.event.a : 0;
	}
	REQUIRE(r.at == r.end);
}

/* Flushes so many receives in one call. */
static void flush_receives(struct weft_adapter *a, uint32_t count)
{
	struct weft_qp_options options = { .recv_max = count };
	struct weft_recv_wr receive = { 0 };
	struct weft_pd *pd;
	struct weft_qp *qp;

	REQUIRE(weft_pd_create(a, NULL, &pd) == WEFT_OK);
	REQUIRE(weft_cq_create(a, NULL, &options.send_cq) == WEFT_OK);
	options.recv_cq = options.send_cq;
	REQUIRE(weft_qp_create(pd, &options, &qp) == WEFT_OK);
	REQUIRE(weft_qp_modify(qp, &(struct weft_qp_attr){ .state = WEFT_QPS_INIT },
			       WEFT_QP_STATE) == WEFT_OK);
	for (uint32_t i = 0; i < count; i++)
		REQUIRE(weft_qp_post_recv(qp, &receive, 1, NULL) == WEFT_OK);
	REQUIRE(weft_qp_modify(qp, &(struct weft_qp_attr){ .state = WEFT_QPS_ERROR },
			       WEFT_QP_STATE) == WEFT_OK);
	REQUIRE(weft_qp_destroy(qp) == WEFT_OK);
	REQUIRE(weft_cq_destroy(options.send_cq) == WEFT_OK);
	REQUIRE(weft_pd_destroy(pd) == WEFT_OK);
}

TEST(test_trace_of_two_adapters_is_one_file)
{
	struct weft_adapter *near, *far;
	struct traced t, later;

	REQUIRE(setenv("WEFT_TRACE", capture_path(), 1) == 0);
	near = opened();
	far = opened();
	knock(near, far);
	close_adapter(near);
	close_adapter(far);
	read_trace(capture_path(), &t);
	EXPECT_EQ(t.count, KNOCK_RECORDS);
	EXPECT_EQ(t.pid, getpid());
	EXPECT_EQ(t.lost, 0);
	near = opened();
	knock(near, near);
	close_adapter(near);
	unsetenv("WEFT_TRACE");
	read_trace(capture_path(), &later);
	EXPECT_EQ(later.count, 2 * KNOCK_RECORDS);
	EXPECT_EQ(later.adapters, t.adapters + 1);
	unlink(capture_path());
}

TEST(test_trace_tells_how_many_events_are_missing)
{
	enum { FEW = 10000, MANY = 20000, RING = 1 << 14 };
	struct weft_adapter *a;
	struct traced t;

	REQUIRE(setenv("WEFT_TRACE", other_path(), 1) == 0);
	a = opened();
	unsetenv("WEFT_TRACE");
	flush_receives(a, FEW);
	read_trace(other_path(), &t);
	EXPECT_EQ(t.retired, FEW);
	EXPECT_EQ(t.lost, 0);
	flush_receives(a, MANY);
	close_adapter(a);
	read_trace(other_path(), &t);
	EXPECT(t.lost > 0);
	/* INIT, ERROR and the note are the others; the first move to ERROR is among the missing. */
	EXPECT_EQ(t.retired, FEW + RING);
	EXPECT_EQ(t.lost, 1 + MANY - RING);
	unlink(other_path());
}

/* ---- Forks ---------------------------------------------------------------------------------- */

static bool has_counters(pid_t pid)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "weft/%ld", (long)pid);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char byte;
	bool is_there = connect(fd, (const struct sockaddr *)&at, length) == 0 &&
			read(fd, &byte, 1) == 1 && byte == 'w';

	close(fd);
	return is_there;
}

static bool is_asleep(const char *task)
{
	char path[300], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", task);
	f = fopen(path, "r");
	if (!f)
		return true; /* it has ended */
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'S';
}

/*
 * All other threads have begun and wait. A thread that begins takes locks of the address
 * sanitizer's allocator, which a child of that moment would find taken for ever.
 */
static void await_threads(void)
{
	bool are_asleep = false;

	while (!are_asleep) {
		DIR *tasks = opendir("/proc/self/task");
		const struct dirent *e;

		REQUIRE(tasks);
		are_asleep = true;
		while ((e = readdir(tasks)))
			are_asleep &= e->d_name[0] == '.' || atol(e->d_name) == (long)getpid() ||
				      is_asleep(e->d_name);
		closedir(tasks);
	}
}

/* What the child of a fork does, with files and counters of its own. */
static int child_run(void)
{
	struct weft_adapter *mine = opened();

	knock(mine, mine);
	knock(mine, mine);
	if (!has_counters(getpid()))
		return 1;
	return weft_adapter_close(mine) == WEFT_OK && !has_counters(getpid()) ? 0 : 2;
}

static const char *path_of(pid_t pid, const char *what)
{
	static char path[600];

	snprintf(path, sizeof(path), "%s.%ld.%s", capture_path(), (long)pid, what);
	return path;
}

static void check_files(pid_t pid, uint32_t connections)
{
	struct traced t;

	EXPECT_EQ(connections_in(path_of(pid, "pcapng")), connections);
	read_trace(path_of(pid, "trace"), &t);
	EXPECT_EQ(t.pid, pid);
	EXPECT_EQ(t.count, KNOCK_RECORDS * connections);
	unlink(path_of(pid, "pcapng"));
	unlink(path_of(pid, "trace"));
}

TEST(test_seen_of_a_forked_child_is_its_own)
{
	struct weft_adapter *a;
	char given[600];
	int status;
	pid_t pid;

	snprintf(given, sizeof(given), "%s.%%p.pcapng", capture_path());
	REQUIRE(setenv("WEFT_PCAP", given, 1) == 0);
	snprintf(given, sizeof(given), "%s.%%p.trace", capture_path());
	REQUIRE(setenv("WEFT_TRACE", given, 1) == 0);
	a = opened();
	knock(a, a);
	await_threads();
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(child_run());
	REQUIRE(waitpid(pid, &status, 0) == pid);
	EXPECT_EQ(status, 0);
	EXPECT(has_counters(getpid()));
	close_adapter(a);
	unsetenv("WEFT_PCAP");
	unsetenv("WEFT_TRACE");
	check_files(pid, 2);
	check_files(getpid(), 1);
}

/*
 * Asked by the leak sanitizer as a program ends. The child of a fork has lost the threads whose
 * memory it would look for.
 */
int __lsan_is_turned_off(void);

static bool is_child;

int __lsan_is_turned_off(void)
{
	return is_child;
}

/* It ends as any program does; what the parent has yet to write is not the child's to write. */
TEST(test_capture_is_not_disturbed_by_a_forked_child_that_exits)
{
	struct weft_adapter *a = opened();
	struct capture *other;
	struct knocking k;
	int status;
	pid_t pid;

	EXPECT_EQ(weft_capture_start(a, other_path()), WEFT_OK);
	knock_begin(&k, a, a);
	fflush(NULL);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		is_child = true;
		exit(0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	EXPECT_EQ(status, 0);
	/* Still the parent's alone, and complete: connections_in() reads every block. */
	EXPECT_EQ(capture_open(other_path(), &other), -EBUSY);
	knock_end(&k);
	EXPECT_EQ(weft_capture_stop(a), WEFT_OK);
	EXPECT_EQ(connections_in(other_path()), 1);
	close_adapter(a);
	unlink(other_path());
}

/* ---- The log -------------------------------------------------------------------------------- */

/* A request that fails on this side, and then the whole queue pair. */
static void fail_twice(struct weft_adapter *a)
{
	const struct weft_qp_attr drain = { .on_failure = WEFT_FAIL_DRAIN };
	const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };
	struct weft_sge bad = { .length = 8, .tag = 1 };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &bad, .sge_count = 1 };
	struct weft_qp_options options = { 0 };
	struct weft_qp *qp, *peer;
	struct weft_qp_attr now;
	struct weft_pd *pd;

	REQUIRE(weft_pd_create(a, NULL, &pd) == WEFT_OK);
	REQUIRE(weft_cq_create(a, NULL, &options.send_cq) == WEFT_OK);
	options.recv_cq = options.send_cq;
	REQUIRE(weft_qp_create(pd, &options, &qp) == WEFT_OK);
	REQUIRE(weft_qp_create(pd, &options, &peer) == WEFT_OK);
	REQUIRE(weft_qp_connect(qp, peer) == WEFT_OK);
	REQUIRE(weft_qp_modify(qp, &drain, WEFT_QP_ON_FAILURE) == WEFT_OK);
	REQUIRE(weft_qp_post_send(qp, &wr, 1, NULL) == WEFT_OK);
	REQUIRE(weft_qp_query(qp, &now) == WEFT_OK);
	REQUIRE(now.state == WEFT_QPS_SQE);
	REQUIRE(weft_qp_modify(qp, &error, WEFT_QP_STATE) == WEFT_OK);
	REQUIRE(weft_qp_destroy(qp) == WEFT_OK);
	REQUIRE(weft_qp_destroy(peer) == WEFT_OK);
	REQUIRE(weft_cq_destroy(options.send_cq) == WEFT_OK);
	REQUIRE(weft_pd_destroy(pd) == WEFT_OK);
}

TEST(test_log_tells_a_failure_in_two_steps_once)
{
	int file = open(other_path(), O_RDWR | O_CREAT | O_TRUNC, 0600);
	int stderr_before = dup(STDERR_FILENO);
	struct weft_adapter *a;
	char text[2000], *second;
	ssize_t n;

	REQUIRE(file >= 0 && stderr_before >= 0);
	REQUIRE(setenv("WEFT_LOG", "error", 1) == 0);
	a = opened();
	unsetenv("WEFT_LOG");
	dup2(file, STDERR_FILENO);
	fail_twice(a);
	dup2(stderr_before, STDERR_FILENO);
	close(stderr_before);
	close_adapter(a);
	n = pread(file, text, sizeof(text) - 1, 0);
	close(file);
	unlink(other_path());
	REQUIRE(n > 0);
	text[n] = '\0';
	/* A line of its own for the peer, which has failed too. */
	second = strchr(text, '\n') + 1;
	EXPECT(strstr(text, ": failed: tag_invalid: ") < second);
	EXPECT(strstr(second, ": failed: peer_terminated: ") != NULL);
	EXPECT(strchr(second, '\n') == text + n - 1);
}
