/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions: their begin, their end, and what a login does to those that are there. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "iscsi/target/target_inside.h"

/* ---- Finding -------------------------------------------------------------------------------- */

static struct target_session *session_at(struct list *l)
{
	return CONTAINER_OF(l, struct target_session, link);
}

static bool is_name(const struct iscsi_name *a, const struct iscsi_name *b)
{
	return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

/* Section 4.4.3: the same initiator port and the same target. */
static bool is_of_port(const struct target_session *s, uint16_t target,
		       const struct iscsi_name *initiator, const uint8_t *isid)
{
	return s->target == target && is_name(&s->initiator, initiator) &&
	       memcmp(s->isid, isid, ISCSI_ISID_BYTES) == 0;
}

struct target_session *target_session_find(struct iscsi_node *node, uint16_t target,
					   const struct iscsi_login_query *q)
{
	for (struct list *l = node->sessions.next; l != &node->sessions; l = l->next)
		if (is_of_port(session_at(l), target, &q->initiator_name, q->isid))
			return session_at(l);
	return NULL;
}

bool target_session_is_clear(const struct target_session *s)
{
	const struct iscsi_node *node = s->node;

	for (struct list *l = node->zombies.next; l != &node->zombies; l = l->next)
		if (is_of_port(session_at(l), s->target, &s->initiator, s->isid))
			return false;
	return true;
}

/* The next that is not in use. There are fewer sessions than numbers. */
uint16_t target_session_tsih(struct iscsi_node *node)
{
	bool is_used = true;

	while (is_used) {
		is_used = ++node->tsih_last == 0;
		for (struct list *l = node->sessions.next; l != &node->sessions; l = l->next)
			is_used |= session_at(l)->tsih == node->tsih_last;
	}
	return node->tsih_last;
}

/* ---- The window ----------------------------------------------------------------------------- */

uint32_t target_session_max_cmd_sn(const struct target_session *s)
{
	return s->exp_cmd_sn + (s->window - s->in_flight) - 1;
}

/* ---- Beginning ------------------------------------------------------------------------------ */

/* SPC-4 section 7.6.4.6: an initiator port is a name and an ISID. */
static uint16_t transport_id(const struct target_session *s, uint8_t bytes[SCSI_TRANSPORT_ID_MAX])
{
	enum { PORT_FORMAT = 0x40, PROTOCOL_ISCSI = 5, HEADER = 4, LENGTH_MIN = 20 };
	static const char digits[] = "0123456789abcdef";
	struct wr w = wr_of(bytes, SCSI_TRANSPORT_ID_MAX);
	uint32_t length = (uint32_t)s->initiator.length + sizeof(",i,0x") + 2 * ISCSI_ISID_BYTES;

	memset(bytes, 0, SCSI_TRANSPORT_ID_MAX);
	length += -length & 3;
	length = length < LENGTH_MIN ? LENGTH_MIN : length;
	wr_u8(&w, PORT_FORMAT | PROTOCOL_ISCSI);
	wr_u8(&w, 0);
	wr_u16(&w, (uint16_t)length);
	wr_bytes(&w, s->initiator.text, s->initiator.length);
	wr_bytes(&w, ",i,0x", strlen(",i,0x"));
	for (int i = 0; i < ISCSI_ISID_BYTES; i++) {
		wr_u8(&w, (uint8_t)digits[s->isid[i] >> 4]);
		wr_u8(&w, (uint8_t)digits[s->isid[i] & 0xf]);
	}
	CHECK(!w.is_short && HEADER + length <= SCSI_TRANSPORT_ID_MAX);
	return (uint16_t)(HEADER + length);
}

static enum weft_reason nexus_add(struct target_session *s)
{
	uint8_t bytes[SCSI_TRANSPORT_ID_MAX];
	struct scsi_nexus_config c = { .transport_id = bytes };

	c.transport_id_length = transport_id(s, bytes);
	return scsi_nexus_add(target_session_scsi(s), &c, &s->nexus);
}

/* As many slots as a session may have, or as are left. */
static void window_take(struct target_session *s)
{
	struct iscsi_node *node = s->node;

	s->window = node->config.window_max < node->unpromised ? node->config.window_max
							       : node->unpromised;
	node->unpromised -= s->window;
}

static void fill(struct target_session *s, struct iscsi_connection *c)
{
	const struct iscsi_login *l = &c->text->login;
	const struct iscsi_login_query *q = iscsi_login_query(l);
	struct word account = chap_is_done(&l->chap) ? chap_peer_name(&l->chap)
						     : (struct word){ "", 0 };

	s->node = c->node;
	s->connection = c;
	s->tsih = iscsi_login_tsih(l);
	s->cid = q->cid;
	s->target = c->target;
	s->is_discovery = q->is_discovery;
	s->initiator = q->initiator_name;
	memcpy(s->isid, q->isid, ISCSI_ISID_BYTES);
	memcpy(s->account, account.at, account.length);
	s->exp_cmd_sn = l->cmd_sn;
	s->params = *iscsi_login_params(l);
	list_init(&s->link);
	list_init(&s->tasks);
	list_init(&s->held);
	list_init(&s->greedy);
	list_init(&s->wait);
}

/* Section 6.3.4: the session goes on with this connection; tasks of the other end. */
static void reinstate(struct target_session *s, struct iscsi_connection *c)
{
	struct iscsi_connection *old = s->connection;
	struct list *l = s->tasks.next;

	s->connection = c;
	c->session = s;
	s->cid = iscsi_login_query(&c->text->login)->cid;
	old->session = NULL;
	while (l != &s->tasks) {
		struct target_task *t = CONTAINER_OF(l, struct target_task, link);

		l = l->next;
		t->pdus = 0;
		/* Those that were aborted before are at their device, too. */
		if (t->is_submitted && !t->is_cut) {
			t->is_cut = true;
			s->cut_count++;
		}
		target_task_abort(t);
	}
	old->reason = WEFT_R_ISCSI_REINSTATED;
	target_conn_end(old, WEFT_R_ISCSI_REINSTATED);
}

enum weft_reason target_session_begin(struct iscsi_connection *c)
{
	struct iscsi_node *node = c->node;
	const struct iscsi_login_query *q = iscsi_login_query(&c->text->login);
	struct target_session *old = target_session_find(node, c->target, q), *s;
	enum weft_reason reason = WEFT_OK;

	if (q->tsih != 0) {
		if (!old || old->tsih != q->tsih)
			return WEFT_R_ISCSI_SESSION; /* it ended meanwhile */
		reinstate(old, c);
		return WEFT_OK;
	}
	if (old) /* section 6.3.5 */
		target_conn_end(old->connection, WEFT_R_ISCSI_REINSTATED);
	if (node->session_count + node->zombie_count >= node->config.sessions_max ||
	    node->unpromised == 0)
		return WEFT_R_LIMIT;
	s = calloc(1, sizeof(*s));
	if (!s)
		return WEFT_R_NO_MEMORY;
	fill(s, c);
	if (!s->is_discovery)
		reason = nexus_add(s);
	if (reason != WEFT_OK) {
		free(s);
		return reason;
	}
	window_take(s);
	list_add_tail(&node->sessions, &s->link);
	node->session_count++;
	node->counts.logins++;
	c->session = s;
	return WEFT_OK;
}

/* ---- The end -------------------------------------------------------------------------------- */

void target_session_reap(struct target_session *s)
{
	struct iscsi_node *node = s->node;

	if (!list_is_empty(&s->tasks))
		return;
	list_remove(&s->link);
	node->zombie_count--;
	node->unpromised += s->window;
	node->has_freed = true;
	free(s);
}

void target_session_end(struct target_session *s)
{
	struct iscsi_node *node = s->node;
	struct list *l = s->tasks.next;
	bool is_last = false;

	s->connection->session = NULL;
	s->connection = NULL;
	list_remove(&s->wait);
	list_remove(&s->link);
	node->session_count--;
	list_add_tail(&node->zombies, &s->link);
	node->zombie_count++;
	if (!s->is_discovery)
		scsi_nexus_remove(target_session_scsi(s), s->nexus);
	if (list_is_empty(&s->tasks)) {
		target_session_reap(s);
		return;
	}
	/* What SCSI has comes back from it. The last task ends the session with it. */
	while (!is_last) {
		struct target_task *t = CONTAINER_OF(l, struct target_task, link);

		l = l->next;
		is_last = l == &s->tasks;
		node->ready_count -= t->state == TASK_READY;
		t->state = TASK_ENDING;
		if (!t->is_submitted && t->posted == 0)
			target_task_free(t);
	}
}
