/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An iSCSI target node as a process (iscsi/target/target.h): listens at its portals, serves the
 * connections and devices of its configuration, and shows its state to `weft iscsi status`. One
 * thread does all of it, in iscsi_server_run().
 */
#pragma once

#include "roles/iscsi_config.h"

struct iscsi_server;

struct iscsi_server_options {
	/* A line for people: logins, refusals, ends of sessions, members of mirrors. */
	void (*tell)(void *context, const char *line);
	void *context;
};

/* Opens devices and portals. The host is borrowed until the close. False: why has a sentence. */
bool iscsi_server_open(const struct iscsi_host *host, const struct iscsi_server_options *options,
		       struct iscsi_server **out, char why[CONFIG_FILE_WHY]);

/* Serves until iscsi_server_stop(); then in order: initiators log out, devices are flushed. */
void iscsi_server_run(struct iscsi_server *s);

/* For any thread and signal handler. */
void iscsi_server_stop(struct iscsi_server *s);

void iscsi_server_close(struct iscsi_server *s);

/* Where it listens: the port, too, if the configuration had 0. */
void iscsi_server_portal(const struct iscsi_server *s, uint32_t number, struct weft_address *at);
