/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows what the network part has measured. Nothing is measured here. */
#pragma once

#include <stdbool.h>

#include "net_subjects.h"

/* Of a value, for programs. */
const char *net_unit(enum net_what what);

/* A table for people: a line for each size, a column for each peer, and the ratio to the first. */
void net_report_table(const struct net_rows *rows);

/* A line for each row, as the other parts of the bench have them. */
void net_report_lines(const struct net_rows *rows);

/*
 * Writes net.json, and bandwidth.svg and latency.svg with the scripts they come from, into a
 * folder. Says on stderr what it could not write.
 */
void net_report_files(const struct net_rows *rows, const char *folder);
