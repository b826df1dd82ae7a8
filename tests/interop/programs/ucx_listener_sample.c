/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes that UCX connects by an address, with its default transports: UCX listens at the
 * port by all that it has, so by librdmacm and by TCP.
 *
 *	ucx_listener_sample PORT            listens at every address, echoes, ends
 *	ucx_listener_sample PORT ADDRESS    connects, sends, looks at what comes back
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { BYTES = 300001, TAG = 7, ALARM_S = 100 };

static ucp_context_h context;
static ucp_worker_h worker;
static uint8_t sent[BYTES], come[BYTES];
static const ucp_request_param_t plain;
/* All is said: which side closes first decides what the other hears of its last requests. */
static int is_done;

static void must_ok(ucs_status_t status, const char *what)
{
	if (status == UCS_OK || is_done)
		return;
	fprintf(stderr, "%s: wrong: %s\n", what, ucs_status_string(status));
	exit(1);
}

static void await(ucs_status_ptr_t request, const char *what)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request)) {
		must_ok(UCS_PTR_STATUS(request), what);
		return;
	}
	do {
		ucp_worker_progress(worker);
		status = ucp_request_check_status(request);
	} while (status == UCS_INPROGRESS);
	ucp_request_free(request);
	must_ok(status, what);
}

static void begin(void)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				.features = UCP_FEATURE_TAG };
	ucp_worker_params_t worker_params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					      .thread_mode = UCS_THREAD_MODE_SINGLE };

	must_ok(ucp_init(&params, NULL, &context), "ucp_init");
	must_ok(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
	for (uint32_t i = 0; i < BYTES; i++)
		sent[i] = (uint8_t)(i * 7 + (i >> 8));
}

static void take(void)
{
	await(ucp_tag_recv_nbx(worker, come, BYTES, TAG, UINT64_MAX, &plain), "receive");
}

static void tell(ucp_ep_h peer, const uint8_t *bytes)
{
	await(ucp_tag_send_nbx(peer, bytes, BYTES, TAG, &plain), "send");
}

static void finish(ucp_ep_h peer)
{
	const ucp_request_param_t now = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
					  .flags = UCP_EP_CLOSE_FLAG_FORCE };

	is_done = 1;
	await(ucp_ep_close_nbx(peer, &now), "close");
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

static void requested(ucp_conn_request_h request, void *arg)
{
	*(ucp_conn_request_h *)arg = request;
}

static void peer_gone(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg;
	(void)ep;
	must_ok(status, "the peer");
}

static ucp_ep_h connect_by(ucp_ep_params_t params)
{
	ucp_ep_h peer;

	params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
	params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
	params.err_handler.cb = peer_gone;
	must_ok(ucp_ep_create(worker, &params, &peer), "ucp_ep_create");
	return peer;
}

static void serve(struct sockaddr_in at)
{
	ucp_conn_request_h request = NULL;
	ucp_listener_params_t params = {
		.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
			      UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
		.sockaddr = { .addr = (struct sockaddr *)&at, .addrlen = sizeof(at) },
		.conn_handler = { .cb = requested, .arg = &request },
	};
	ucp_conn_request_attr_t attr = { .field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR };
	ucp_listener_h listener;
	ucp_ep_h peer;

	must_ok(ucp_listener_create(worker, &params, &listener), "ucp_listener_create");
	while (!request)
		ucp_worker_progress(worker);
	must_ok(ucp_conn_request_query(request, &attr), "ucp_conn_request_query");
	peer = connect_by((ucp_ep_params_t){ .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST,
					     .conn_request = request });
	take();
	tell(peer, come);
	take(); /* the client has looked */
	ucp_listener_destroy(listener);
	finish(peer);
}

static void ask(struct sockaddr_in at)
{
	ucp_ep_h peer = connect_by((ucp_ep_params_t){
		.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
		.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
		.sockaddr = { .addr = (struct sockaddr *)&at, .addrlen = sizeof(at) },
	});

	tell(peer, sent);
	take();
	if (memcmp(sent, come, BYTES) != 0) {
		fprintf(stderr, "wrong bytes\n");
		exit(1);
	}
	printf("every byte is right\n");
	is_done = 1;
	tell(peer, sent);
	finish(peer);
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET };

	if (argc < 2)
		return 2;
	alarm(ALARM_S);
	at.sin_port = htons((uint16_t)atoi(argv[1]));
	if (argc > 2 && inet_pton(AF_INET, argv[2], &at.sin_addr) != 1)
		return 2;
	begin();
	if (argc > 2)
		ask(at);
	else
		serve(at);
	return 0;
}
