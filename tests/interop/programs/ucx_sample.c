/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes of UCX's protocols that look at every byte they get: tagged and active messages,
 * put, get, atomics. The parent asks, the child has the memory. ucx_cases.py compiles it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { BYTES = 2 << 20, AM_ID = 5, TIMES = 50, ALARM_S = 100 };

/* What the parent asks of the child, by a tagged message. */
enum ask { ASK_ECHO = 1, ASK_AM, ASK_LOOK, ASK_FILL, ASK_END };

struct control {
	uint32_t ask, bytes, salt;
};

enum { TAG_CONTROL = 1, TAG_DATA = 2, TAG_ANSWER = 3 };

static const uint32_t sizes[] = { 1, 8, 63, 1000, 1024, 4099, 8193, 65536, 100003, BYTES };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* One of the two. */
static struct {
	const char *name;
	int socket;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h peer;
	ucp_mem_h mapped;
	uint8_t *memory; /* which the peer reaches */
	uint64_t remote; /* the peer's */
	ucp_rkey_h key;
	/* The active message that came last. */
	int has_am;
	struct control am_header;
	uint8_t *am_bytes;
	ucs_status_ptr_t am_fetch; /* of its bytes, if they did not come with it */
} side;

static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s: wrong: %s\n", side.name, what);
	_exit(1);
}

static void must_ok(ucs_status_t status, const char *what)
{
	if (status == UCS_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", side.name, what, ucs_status_string(status));
	_exit(1);
}

static uint8_t byte_of(uint32_t salt, uint32_t i)
{
	return (uint8_t)(salt * 13 + i + (i >> 8) * 3 + (i >> 16) * 5);
}

static void fill(uint8_t *to, uint32_t bytes, uint32_t salt)
{
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = byte_of(salt, i);
}

static int is_filled(const uint8_t *bytes, uint32_t count, uint32_t salt)
{
	for (uint32_t i = 0; i < count; i++) {
		if (bytes[i] != byte_of(salt, i))
			return 0;
	}
	return 1;
}

static void *room(void)
{
	void *bytes = malloc(BYTES);

	must(bytes != NULL, "memory");
	return bytes;
}

/* ---- Requests, each awaited ------------------------------------------------------------------ */

static void await(ucs_status_ptr_t request, const char *what)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request)) {
		must_ok(UCS_PTR_STATUS(request), what);
		return;
	}
	do {
		ucp_worker_progress(side.worker);
		status = ucp_request_check_status(request);
	} while (status == UCS_INPROGRESS);
	ucp_request_free(request);
	must_ok(status, what);
}

static const ucp_request_param_t plain;

static void flush(void)
{
	await(ucp_ep_flush_nbx(side.peer, &plain), "flush");
}

static void tell(ucp_tag_t tag, const void *bytes, size_t count)
{
	await(ucp_tag_send_nbx(side.peer, bytes, count, tag, &plain), "send");
}

static void recv_exactly(ucp_tag_t tag, void *bytes, size_t count)
{
	/* Else what comes at once does not tell its length (UCX 1.13). */
	ucp_request_param_t want = { .op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL };
	ucs_status_ptr_t request = ucp_tag_recv_nbx(side.worker, bytes, count, tag, UINT64_MAX,
						    &want);
	ucp_tag_recv_info_t info = { 0 };
	ucs_status_t status;

	must(UCS_PTR_IS_PTR(request), "a receive");
	do {
		ucp_worker_progress(side.worker);
		status = ucp_tag_recv_request_test(request, &info);
	} while (status == UCS_INPROGRESS);
	ucp_request_free(request);
	must_ok(status, "receive");
	must(info.length == count, "how much was received");
}

static void ask(enum ask what, uint32_t bytes, uint32_t salt)
{
	const struct control c = { what, bytes, salt };

	tell(TAG_CONTROL, &c, sizeof(c));
}

static void await_answer(uint32_t salt)
{
	uint32_t answer;

	recv_exactly(TAG_ANSWER, &answer, sizeof(answer));
	must(answer == salt, "the answer");
}

/* ---- The child ------------------------------------------------------------------------------- */

static ucs_status_t take_am(void *arg, const void *header, size_t header_bytes, void *data,
			    size_t length, const ucp_am_recv_param_t *param)
{
	(void)arg;
	must(header_bytes == sizeof(side.am_header), "an active message's header");
	memcpy(&side.am_header, header, sizeof(side.am_header));
	must(length == side.am_header.bytes, "an active message's length");
	side.has_am = 1;
	if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
		memcpy(side.am_bytes, data, length);
		return UCS_OK;
	}
	side.am_fetch = ucp_am_recv_data_nbx(side.worker, data, side.am_bytes, length, &plain);
	return UCS_INPROGRESS;
}

static void await_am(const struct control *c)
{
	while (!side.has_am)
		ucp_worker_progress(side.worker);
	await(side.am_fetch, "fetch");
	must(side.am_header.salt == c->salt && side.am_header.bytes == c->bytes, "which message");
	must(is_filled(side.am_bytes, c->bytes, c->salt), "an active message");
	side.has_am = 0;
	side.am_fetch = NULL;
	memset(side.am_bytes, 0, BYTES);
}

static void answer(const struct control *c, uint8_t *buffer)
{
	switch (c->ask) {
	case ASK_ECHO:
		recv_exactly(TAG_DATA, buffer, c->bytes);
		must(is_filled(buffer, c->bytes, c->salt), "what was sent");
		fill(buffer, c->bytes, c->salt + 1);
		tell(TAG_DATA, buffer, c->bytes);
		break;
	case ASK_AM:
		await_am(c);
		break;
	case ASK_LOOK:
		must(is_filled(side.memory, c->bytes, c->salt), "what was put");
		must(side.memory[c->bytes] == 0xee, "the byte behind it");
		break;
	default:
		must(c->ask == ASK_FILL, "what is asked");
		memset(side.memory, 0xee, BYTES + 1);
		fill(side.memory, c->bytes, c->salt);
	}
	tell(TAG_ANSWER, &c->salt, sizeof(c->salt));
}

static void serve(void)
{
	uint8_t *buffer = room();
	struct control c;

	recv_exactly(TAG_CONTROL, &c, sizeof(c));
	while (c.ask != ASK_END) {
		answer(&c, buffer);
		recv_exactly(TAG_CONTROL, &c, sizeof(c));
	}
	free(buffer);
}

/* ---- The parent ------------------------------------------------------------------------------ */

static void test_tag(uint8_t *buffer)
{
	for (uint32_t i = 0; i < SIZES; i++) {
		ask(ASK_ECHO, sizes[i], i);
		fill(buffer, sizes[i], i);
		tell(TAG_DATA, buffer, sizes[i]);
		recv_exactly(TAG_DATA, buffer, sizes[i]);
		must(is_filled(buffer, sizes[i], i + 1), "what came back");
		await_answer(i);
	}
}

static void test_am(uint8_t *buffer)
{
	for (uint32_t i = 0; i < SIZES; i++) {
		const struct control c = { ASK_AM, sizes[i], 1 + i };

		ask(ASK_AM, c.bytes, c.salt);
		fill(buffer, c.bytes, c.salt);
		await(ucp_am_send_nbx(side.peer, AM_ID, &c, sizeof(c), buffer, c.bytes, &plain),
		      "active message");
		await_answer(c.salt);
	}
}

static void test_put(uint8_t *buffer)
{
	for (uint32_t i = 0; i < SIZES; i++) {
		ask(ASK_FILL, sizes[i], 99);
		await_answer(99);
		fill(buffer, sizes[i], i);
		await(ucp_put_nbx(side.peer, buffer, sizes[i], side.remote, side.key, &plain),
		      "put");
		flush();
		ask(ASK_LOOK, sizes[i], i);
		await_answer(i);
	}
}

static void test_get(uint8_t *buffer)
{
	for (uint32_t i = 0; i < SIZES; i++) {
		ask(ASK_FILL, sizes[i], i);
		await_answer(i);
		memset(buffer, 0, sizes[i]);
		await(ucp_get_nbx(side.peer, buffer, sizes[i], side.remote, side.key, &plain),
		      "get");
		must(is_filled(buffer, sizes[i], i), "what was got");
	}
}

/* What the word was; to has what it may be compared with, too. */
static uint64_t fetch(ucp_atomic_op_t op, uint64_t with, uint64_t to)
{
	ucp_request_param_t how = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE |
						    UCP_OP_ATTR_FIELD_REPLY_BUFFER,
				    .datatype = ucp_dt_make_contig(sizeof(uint64_t)),
				    .reply_buffer = &to };

	await(ucp_atomic_op_nbx(side.peer, op, &with, 1, side.remote, side.key, &how), "atomic");
	return to;
}

static void change(ucp_atomic_op_t op, uint64_t with)
{
	ucp_request_param_t how = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
				    .datatype = ucp_dt_make_contig(sizeof(uint64_t)) };

	await(ucp_atomic_op_nbx(side.peer, op, &with, 1, side.remote, side.key, &how), "atomic");
	flush();
}

static void test_atomics(uint8_t *buffer)
{
	uint64_t word = 0;

	(void)buffer;
	await(ucp_put_nbx(side.peer, &word, sizeof(word), side.remote, side.key, &plain), "put");
	flush();
	for (uint64_t i = 0; i < TIMES; i++) {
		must(fetch(UCP_ATOMIC_OP_ADD, 3, 0) == 5 * i, "fetch and add");
		change(UCP_ATOMIC_OP_ADD, 2);
	}
	/* The first operand is compared, and the other takes its place. */
	must(fetch(UCP_ATOMIC_OP_CSWAP, 1, 7) == 5 * TIMES, "compare and swap of another");
	must(fetch(UCP_ATOMIC_OP_CSWAP, 5 * TIMES, UINT64_MAX - 6) == 5 * TIMES,
	     "compare and swap");
	must(fetch(UCP_ATOMIC_OP_ADD, 9, 0) == UINT64_MAX - 6, "what it was swapped for");
	must(fetch(UCP_ATOMIC_OP_SWAP, 0xf0f0, 0) == 2, "a sum that wraps; swap");
	change(UCP_ATOMIC_OP_AND, 0xff00);
	change(UCP_ATOMIC_OP_OR, 0x000f);
	change(UCP_ATOMIC_OP_XOR, 0x1001);
	must(fetch(UCP_ATOMIC_OP_ADD, 0, 0) == 0xe00e, "and, or, exclusive or");
}

static void ask_all(void)
{
	static const struct {
		const char *name;
		void (*test)(uint8_t *buffer);
	} tests[] = { { "tag", test_tag },
		      { "am", test_am },
		      { "put", test_put },
		      { "get", test_get },
		      { "atomics", test_atomics } };
	uint8_t *buffer = room();

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		tests[i].test(buffer);
		printf("%s: every byte is right\n", tests[i].name);
	}
	ask(ASK_END, 0, 0);
	free(buffer);
}

/* ---- Both ------------------------------------------------------------------------------------ */

static void say(const void *bytes, size_t count)
{
	must(write(side.socket, &count, sizeof(count)) == sizeof(count), "write");
	must(write(side.socket, bytes, count) == (ssize_t)count, "write");
}

/* Malloc'ed. */
static void *hear(void)
{
	size_t count;
	void *bytes;

	must(read(side.socket, &count, sizeof(count)) == sizeof(count), "read");
	bytes = malloc(count);
	must(bytes && recv(side.socket, bytes, count, MSG_WAITALL) == (ssize_t)count, "read");
	return bytes;
}

static void open_worker(void)
{
	ucp_params_t context = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				 .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO64 |
					     UCP_FEATURE_AM };
	ucp_worker_params_t worker = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				       .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
							 UCP_AM_HANDLER_PARAM_FIELD_CB,
					   .id = AM_ID,
					   .cb = take_am };
	ucp_mem_map_params_t map = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
						   UCP_MEM_MAP_PARAM_FIELD_LENGTH,
				     .length = BYTES + 1 };

	side.memory = calloc(1, BYTES + 1);
	side.am_bytes = calloc(1, BYTES);
	must(side.memory && side.am_bytes, "memory");
	map.address = side.memory;
	must_ok(ucp_init(&context, NULL, &side.context), "init");
	must_ok(ucp_worker_create(side.context, &worker, &side.worker), "worker");
	must_ok(ucp_worker_set_am_recv_handler(side.worker, &handler), "handler");
	must_ok(ucp_mem_map(side.context, &map, &side.mapped), "map");
}

static void connect_both(void)
{
	ucp_ep_params_t ep = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS };
	uintptr_t at = (uintptr_t)side.memory, *remote;
	ucp_address_t *address;
	void *packed, *peer, *key;
	size_t length;

	must_ok(ucp_worker_get_address(side.worker, &address, &length), "address");
	say(address, length);
	ucp_worker_release_address(side.worker, address);
	must_ok(ucp_rkey_pack(side.context, side.mapped, &packed, &length), "key");
	say(packed, length);
	ucp_rkey_buffer_release(packed);
	say(&at, sizeof(at));
	peer = hear();
	key = hear();
	remote = hear();
	side.remote = *remote;
	ep.address = peer;
	must_ok(ucp_ep_create(side.worker, &ep, &side.peer), "endpoint");
	must_ok(ucp_ep_rkey_unpack(side.peer, key, &side.key), "key");
	free(peer);
	free(key);
	free(remote);
}

/* Until the other has nothing left to ask for. */
static void meet(void)
{
	uint8_t word = 1;

	must(write(side.socket, &word, 1) == 1, "write");
	while (recv(side.socket, &word, 1, MSG_DONTWAIT) < 0)
		ucp_worker_progress(side.worker);
}

static void close_all(void)
{
	ucp_rkey_destroy(side.key);
	await(ucp_ep_close_nbx(side.peer, &plain), "close");
	meet();
	ucp_mem_unmap(side.context, side.mapped);
	ucp_worker_destroy(side.worker);
	ucp_cleanup(side.context);
	free(side.memory);
	free(side.am_bytes);
}

int main(void)
{
	int ends[2], status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return 1;
	child = fork();
	alarm(ALARM_S); /* if the other has died */
	side.name = child == 0 ? "child" : "parent";
	side.socket = ends[child == 0];
	close(ends[child != 0]);
	open_worker();
	connect_both();
	if (child == 0)
		serve();
	else
		ask_all();
	close_all();
	if (child == 0)
		return 0;
	must(waitpid(child, &status, 0) == child && status == 0, "the child's end");
	printf("both have ended\n");
	return 0;
}
