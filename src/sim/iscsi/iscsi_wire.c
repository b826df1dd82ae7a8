/* SPDX-License-Identifier: BSD-2-Clause */
/* The judge of every PDU, as it leaves its sender: RFC 7143 sections 4.2.2, 11 and 13. */
#include <string.h>

#include "base/crc.h"
#include "sim/iscsi/iscsi_world.h"
#include "wire/iscsi_sn.h"

void isw_wire_begin(struct isw_wire *wire)
{
	*wire = (struct isw_wire){ .has_cmd_sn = false };
	isw_keys_init(&wire->keys);
}

static struct isw_task *task_find(struct isw_wire *wire, uint32_t itt)
{
	for (uint32_t i = 0; i < ISW_TASKS; i++)
		if (wire->tasks[i].is_used && wire->tasks[i].itt == itt)
			return &wire->tasks[i];
	return NULL;
}

/* A place for a task; of those that are over the oldest gives way: data may come for the others. */
static struct isw_task *task_place(struct isw_wire *wire)
{
	struct isw_task *place = NULL;

	for (uint32_t i = 0; i < ISW_TASKS; i++) {
		struct isw_task *t = &wire->tasks[i];

		if (!t->is_used)
			return t;
		if (t->is_over && (!place || t->order < place->order))
			place = t;
	}
	return place;
}

#define WRONG(...) isw_fail(l->world, __VA_ARGS__)

/* ---- Of an initiator ------------------------------------------------------------------------ */

static void judge_cmd_sn(struct isw_link *l, const struct iscsi_pdu *p)
{
	struct isw_wire *wire = &l->wire;

	if (!wire->has_cmd_sn)
		wire->cmd_sn = p->cmd_sn;
	wire->has_cmd_sn = true;
	if (p->cmd_sn != wire->cmd_sn)
		WRONG("host %u sends CmdSN %u, not %u, in a %s", l->host, p->cmd_sn, wire->cmd_sn,
		      iscsi_opcode_name(p->opcode));
	if (p->is_immediate)
		return;
	if (wire->has_window && iscsi_sn_is_before(wire->max_cmd_sn, p->cmd_sn))
		WRONG("host %u sends CmdSN %u beyond the window to %u", l->host, p->cmd_sn,
		      wire->max_cmd_sn);
	wire->cmd_sn++;
}

static void command(struct isw_link *l, const struct iscsi_pdu *p)
{
	struct isw_wire *wire = &l->wire;
	const struct isw_keys *k = &wire->keys;
	struct isw_task *t = task_find(wire, p->itt);

	if (t && !t->is_over)
		WRONG("host %u uses tag 0x%08x for two tasks", l->host, p->itt);
	if (!t)
		t = task_place(wire);
	if (!t) {
		WRONG("host %u has more than %d tasks", l->host, ISW_TASKS);
		return;
	}
	*t = (struct isw_task){ .is_used = true,
				.itt = p->itt,
				.lun = p->lun,
				.order = ++wire->order,
				.is_read = p->is_read,
				.is_write = p->is_write,
				.expected = p->expected_bytes,
				.sent = p->data_bytes,
				.r2t_at = p->data_bytes };
	if (p->data_bytes > 0 && (!k->has_immediate || !p->is_write))
		WRONG("host %u sends immediate data that it must not", l->host);
	if (p->data_bytes > k->first_burst || p->data_bytes > p->expected_bytes)
		WRONG("host %u sends %u bytes of immediate data", l->host, p->data_bytes);
	if (!p->is_final && k->is_r2t_needed)
		WRONG("host %u announces unsolicited data that it must not send", l->host);
}

static void unsolicited(struct isw_link *l, struct isw_task *t, const struct iscsi_pdu *p)
{
	const struct isw_keys *k = &l->wire.keys;
	uint32_t end = t->sent + p->data_bytes;

	if (k->is_r2t_needed || p->offset != t->sent || end > t->expected || end > k->first_burst)
		WRONG("host %u sends unsolicited data at %u to %u of %u", l->host, p->offset, end,
		      t->expected);
	t->sent = end;
	t->r2t_at = end;
	if (p->data_sn != t->data_out_sn)
		WRONG("host %u sends DataSN %u, not %u", l->host, p->data_sn, t->data_out_sn);
	t->data_out_sn = p->is_final ? 0 : t->data_out_sn + 1;
}

static void data_out(struct isw_link *l, const struct iscsi_pdu *p)
{
	struct isw_task *t = task_find(&l->wire, p->itt);

	if (!t || !t->is_write) {
		WRONG("host %u sends data of no task, 0x%08x", l->host, p->itt);
		return;
	}
	if (p->ttt == ISCSI_TAG_NONE) {
		unsolicited(l, t, p);
		return;
	}
	for (uint32_t i = 0; i < 8; i++) {
		if (t->open[i].end == 0 || t->open[i].ttt != p->ttt)
			continue;
		if (p->offset != t->open[i].at || p->offset + p->data_bytes > t->open[i].end)
			WRONG("host %u sends data at %u, not at %u, for an R2T", l->host, p->offset,
			      t->open[i].at);
		t->open[i].at += p->data_bytes;
		if (p->is_final != (t->open[i].at == t->open[i].end))
			WRONG("host %u ends the data for an R2T at %u of %u", l->host,
			      t->open[i].at, t->open[i].end);
		if (p->is_final) {
			t->open[i].end = 0;
			t->r2ts--;
		}
		return;
	}
	WRONG("host %u sends data for an R2T that it has not, 0x%08x", l->host, p->ttt);
}

static void manage(struct isw_link *l, const struct iscsi_pdu *p)
{
	struct isw_wire *wire = &l->wire;

	for (uint32_t i = 0; i < ISW_MANAGES; i++) {
		if (wire->manages[i].function != 0)
			continue;
		wire->manages[i] = (struct isw_manage){ .function = p->code,
							.itt = p->itt,
							.ref_itt = p->ref_itt,
							.lun = p->lun,
							.order = ++wire->order };
		return;
	}
	WRONG("host %u has %d functions without an answer", l->host, ISW_MANAGES);
}

static bool of_initiator(struct isw_link *l, const struct iscsi_pdu *p)
{
	struct isw_wire *wire = &l->wire;

	if (p->opcode != ISCSI_DATA_OUT && p->opcode != ISCSI_SNACK)
		judge_cmd_sn(l, p);
	if (wire->has_stat_sn && wire->is_full && iscsi_sn_is_before(wire->stat_sn, p->exp_stat_sn))
		WRONG("host %u acknowledges StatSN %u before it was sent", l->host,
		      p->exp_stat_sn - 1);
	if (wire->is_full && p->data_bytes > wire->keys.recv[ISCSI_TARGET])
		WRONG("host %u sends a data segment of %u bytes", l->host, p->data_bytes);
	if (p->opcode == ISCSI_SCSI_COMMAND)
		command(l, p);
	else if (p->opcode == ISCSI_DATA_OUT)
		data_out(l, p);
	else if (p->opcode == ISCSI_TASK_REQUEST)
		manage(l, p);
	/* Unsolicited data comes in the order of the commands (section 4.2.5.2). */
	return p->opcode == ISCSI_DATA_OUT && p->ttt != ISCSI_TAG_NONE;
}

/* ---- Of the target -------------------------------------------------------------------------- */

static bool has_stat_sn(const struct iscsi_pdu *p)
{
	return p->opcode != ISCSI_R2T && !(p->opcode == ISCSI_DATA_IN && !p->has_status) &&
	       !(p->opcode == ISCSI_NOP_IN && p->itt == ISCSI_TAG_NONE) &&
	       !(p->opcode == ISCSI_LOGIN_RESPONSE && p->status_class != 0);
}

static void judge_numbers(struct isw_link *l, const struct iscsi_pdu *p)
{
	struct isw_wire *wire = &l->wire;

	if (has_stat_sn(p)) {
		if (wire->has_stat_sn && p->stat_sn != wire->stat_sn)
			WRONG("the target sends StatSN %u, not %u, to host %u in a %s", p->stat_sn,
			      wire->stat_sn, l->host, iscsi_opcode_name(p->opcode));
		wire->has_stat_sn = true;
		wire->stat_sn = p->stat_sn + 1;
	}
	if (p->opcode == ISCSI_LOGIN_RESPONSE && !wire->is_full)
		return;
	if (iscsi_sn_is_before(wire->cmd_sn, p->exp_cmd_sn))
		WRONG("the target expects CmdSN %u of host %u, which has sent to %u", p->exp_cmd_sn,
		      l->host, wire->cmd_sn - 1);
	if (wire->has_window && (iscsi_sn_is_before(p->exp_cmd_sn, wire->exp_cmd_sn) ||
				 iscsi_sn_is_before(p->max_cmd_sn, wire->max_cmd_sn)))
		WRONG("the window of host %u goes back: %u to %u after %u to %u", l->host,
		      p->exp_cmd_sn, p->max_cmd_sn, wire->exp_cmd_sn, wire->max_cmd_sn);
	if (iscsi_sn_is_before(p->max_cmd_sn, p->exp_cmd_sn - 1) ||
	    p->max_cmd_sn - p->exp_cmd_sn + 1 > l->world->limits.window)
		WRONG("the window of host %u is %u to %u", l->host, p->exp_cmd_sn, p->max_cmd_sn);
	wire->has_window = true;
	wire->exp_cmd_sn = p->exp_cmd_sn;
	wire->max_cmd_sn = p->max_cmd_sn;
}

static void over(struct isw_link *l, struct isw_task *t, const struct iscsi_pdu *p)
{
	uint64_t residual = p->is_underflow ? p->residual : 0;

	if (t->is_over)
		WRONG("the target ends task 0x%08x of host %u twice", t->itt, l->host);
	if (p->status == 0 && p->code == 0 && t->is_read && t->got + residual != t->expected)
		WRONG("the target ends a read of %u bytes of host %u with %u", t->expected, l->host,
		      t->got);
	if (p->status == 0 && p->code == 0 && t->is_write && residual == 0 &&
	    t->sent + t->asked < t->expected)
		WRONG("the target ends a write of %u bytes of host %u with %u", t->expected,
		      l->host, t->sent + t->asked);
	t->is_over = true;
}

static void data_in(struct isw_link *l, const struct iscsi_pdu *p)
{
	struct isw_task *t = task_find(&l->wire, p->itt);
	const struct isw_keys *k = &l->wire.keys;

	if (!t || t->is_over || !t->is_read) {
		WRONG("the target sends data of no task of host %u, 0x%08x", l->host, p->itt);
		return;
	}
	if (p->offset != t->got || p->data_sn != t->data_in_sn++ ||
	    p->offset + p->data_bytes > t->expected)
		WRONG("the target sends data of host %u at %u, not at %u, of %u, DataSN %u",
		      l->host, p->offset, t->got, t->expected, p->data_sn);
	t->got += p->data_bytes;
	t->burst_got += p->data_bytes;
	if (t->burst_got > k->burst || p->data_bytes > k->recv[ISCSI_INITIATOR])
		WRONG("the target sends %u bytes at once, %u in a burst, to host %u", p->data_bytes,
		      t->burst_got, l->host);
	if (p->is_final)
		t->burst_got = 0;
	if (p->has_status)
		over(l, t, p);
}

static void r2t(struct isw_link *l, const struct iscsi_pdu *p)
{
	struct isw_task *t = task_find(&l->wire, p->itt);
	const struct isw_keys *k = &l->wire.keys;

	if (!t || t->is_over || !t->is_write) {
		WRONG("the target asks host %u for data of no task, 0x%08x", l->host, p->itt);
		return;
	}
	if (p->data_sn != t->r2t_sn++ || p->offset != t->r2t_at || p->desired_bytes == 0 ||
	    p->desired_bytes > k->burst || p->offset + p->desired_bytes > t->expected)
		WRONG("the target asks host %u for %u bytes at %u, not at %u, of %u, R2TSN %u",
		      l->host, p->desired_bytes, p->offset, t->r2t_at, t->expected, p->data_sn);
	t->r2t_at = p->offset + p->desired_bytes;
	t->asked += p->desired_bytes;
	if (++t->r2ts > k->r2ts || t->r2ts > 8) {
		WRONG("the target has %u R2Ts for a task of host %u", t->r2ts, l->host);
		return;
	}
	for (uint32_t i = 0; i < 8; i++) {
		if (t->open[i].end != 0)
			continue;
		t->open[i].ttt = p->ttt;
		t->open[i].at = p->offset;
		t->open[i].end = p->offset + p->desired_bytes;
		return;
	}
}

static bool is_ended_by(const struct isw_manage *m, const struct isw_task *t)
{
	if (m->function == ISCSI_ABORT_TASK)
		return t->itt == m->ref_itt && t->order < m->order;
	return t->lun == m->lun && t->order < m->order;
}

/* Section 11.6: nothing comes of the tasks that it has ended. */
static void managed(struct isw_link *l, const struct iscsi_pdu *p)
{
	struct isw_wire *wire = &l->wire;

	for (uint32_t i = 0; i < ISW_MANAGES; i++) {
		struct isw_manage *m = &wire->manages[i];

		if (m->function == 0 || m->itt != p->itt)
			continue;
		for (uint32_t k = 0; k < ISW_TASKS; k++)
			if (wire->tasks[k].is_used && is_ended_by(m, &wire->tasks[k]) &&
			    (p->code == ISCSI_TASK_COMPLETE || p->code == ISCSI_TASK_NO_TASK))
				wire->tasks[k].is_over = true;
		m->function = 0;
		return;
	}
	WRONG("the target answers no function of host %u, 0x%08x", l->host, p->itt);
}

static bool of_target(struct isw_link *l, const struct iscsi_pdu *p)
{
	struct isw_wire *wire = &l->wire;
	struct isw_task *t;

	if (p->opcode == ISCSI_LOGIN_RESPONSE && p->is_final && p->status_class == 0 &&
	    p->nsg == ISCSI_STAGE_FULL_FEATURE)
		wire->is_full = true;
	judge_numbers(l, p);
	if (wire->is_full && p->data_bytes > wire->keys.recv[ISCSI_INITIATOR])
		WRONG("the target sends a data segment of %u bytes to host %u", p->data_bytes,
		      l->host);
	switch (p->opcode) {
	case ISCSI_DATA_IN:
		data_in(l, p);
		return !p->has_status;
	case ISCSI_R2T:
		r2t(l, p);
		return true;
	case ISCSI_TASK_RESPONSE:
		managed(l, p);
		return false;
	case ISCSI_SCSI_RESPONSE:
		t = task_find(wire, p->itt);
		if (t)
			over(l, t, p);
		else
			WRONG("the target answers no command of host %u, 0x%08x", l->host, p->itt);
		return false;
	default:
		return false;
	}
}

/* ---- Any ------------------------------------------------------------------------------------ */

static void judge_digests(struct isw_link *l, const struct isw_pdu *p, bool was_full)
{
	const struct isw_keys *k = &l->wire.keys;
	uint32_t header = iscsi_header_bytes(p->bytes), at = header;
	uint32_t data = iscsi_data_bytes(p->bytes);

	if (was_full && k->has_header_digest) {
		if (iscsi_header_check(p->bytes, header, p->bytes + header) != WEFT_OK)
			WRONG("link %u: a header digest is wrong", l->id);
		at += ISCSI_DIGEST_BYTES;
	}
	data += iscsi_pad(data);
	if (was_full && k->has_data_digest && data > 0 &&
	    iscsi_data_check(crc32c_add(CRC32C_BEGIN, p->bytes + at, data), p->bytes + at + data) !=
		    WEFT_OK)
		WRONG("link %u: a data digest is wrong", l->id);
}

/* A command that a Reject or task management ends has no response. */
static void forget(struct isw_link *l, enum iscsi_side side, const struct iscsi_pdu *p,
		   const uint8_t *data)
{
	struct iscsi_pdu bad;
	struct isw_task *t;

	if (side != ISCSI_TARGET || p->opcode != ISCSI_REJECT)
		return;
	if (iscsi_decode(&bad, ISCSI_INITIATOR, rd_of(data, p->data_bytes), ISCSI_DATA_MAX) !=
		    WEFT_OK ||
	    bad.opcode != ISCSI_SCSI_COMMAND)
		return;
	t = task_find(&l->wire, bad.itt);
	if (t)
		t->is_over = true;
}

bool isw_wire_take(struct isw_link *l, enum iscsi_side side, const struct isw_pdu *p)
{
	struct isw_wire *wire = &l->wire;
	bool was_full = wire->is_full, can_wait;
	uint32_t header = iscsi_header_bytes(p->bytes);
	struct iscsi_pdu pdu;
	const uint8_t *data;

	l->world->pdus++;
	if (iscsi_decode(&pdu, side, rd_of(p->bytes, header), ISCSI_DATA_MAX) != WEFT_OK) {
		WRONG("link %u: a PDU of opcode 0x%02x that is none", l->id, p->bytes[0] & 0x3f);
		return false;
	}
	isw_trace(l->world, ISW_TRACE_PASSED, l->id, pdu.opcode, pdu.itt);
	judge_digests(l, p, was_full);
	data = p->bytes + header +
	       (was_full && wire->keys.has_header_digest ? ISCSI_DIGEST_BYTES : 0);
	if (side == ISCSI_TARGET && !was_full)
		wire->login_bytes += p->length;
	if (pdu.opcode == ISCSI_LOGIN_REQUEST || pdu.opcode == ISCSI_LOGIN_RESPONSE)
		isw_keys_take(&wire->keys, side, data, pdu.data_bytes);
	can_wait = side == ISCSI_INITIATOR ? of_initiator(l, &pdu) : of_target(l, &pdu);
	forget(l, side, &pdu, data);
	return can_wait;
}
