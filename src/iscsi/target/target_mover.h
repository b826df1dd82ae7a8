/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The datamover of a connection (RFC 5047): how PDUs and data of tasks go between a session of
 * target.h and its initiator. Sessions know no other way. TCP is one (target_tcp.c): data goes as
 * Data-In, R2T and Data-Out. iSER is another: data goes by RDMA Write and RDMA Read.
 *
 * The mover calls back: target_conn_place(), target_conn_sink() and target_conn_take() for each PDU
 * that comes; target_task_arrived() when data that get_data() asked for is in place, and
 * target_task_put() when what put_data() was given is on its way.
 */
#pragma once

#include "iscsi/framing/framing.h"
#include "iscsi/login/keys.h"

struct iscsi_connection;
struct iscsi_view;
struct target_task;

struct target_mover {
	/*
	 * It sends data from where target_task_spans() says at that moment, so the data may stay
	 * in the device until then.
	 */
	bool takes_loans;

	/* Whether a control PDU with so much data can be sent now. */
	bool (*can_send)(const struct iscsi_connection *c, uint32_t data_bytes);

	/* Send_Control: sends a PDU with a copy of its data. StatSN and the window are in it. */
	void (*send_control)(struct iscsi_connection *c, const struct iscsi_pdu *p,
			     const uint8_t *data);

	/*
	 * Put_Data: the task is done; its data goes to the initiator, then its status
	 * (target_task_status()). A mover may join the status to the data if
	 * target_task_is_plain(). The task's memory stays until target_task_put().
	 */
	void (*put_data)(struct iscsi_connection *c, struct target_task *t);

	/* Get_Data: the initiator's data from t->received to t->needed is wanted in the memory. */
	void (*get_data)(struct iscsi_connection *c, struct target_task *t);

	/* Notice_Key_Values: the login is over, from the next PDU on these hold. */
	void (*notice_keys)(struct iscsi_connection *c, const struct iscsi_params *p);

	/* A PDU that had to wait is offered again. */
	void (*resume)(struct iscsi_connection *c, uint64_t now_ns);

	/* Whether all that was given is sent. */
	bool (*is_sent)(const struct iscsi_connection *c);

	/* Adds the bytes of the connection to the view. */
	void (*count)(const struct iscsi_connection *c, struct iscsi_view *v);

	/* Connection_Terminate: frees what the mover has; tasks are not put any more. */
	void (*terminate)(struct iscsi_connection *c);
};
