/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ports of a fabric, back to back, that a thread of the test runs: the hub of adapters
 * (driver/fabric/fabric_hub.h) with two queues of frames in place of links.
 */
#pragma once

#include <weft/roce.h>

#include "driver/fabric/fabric_hub.h"

enum { BED_LMC = 1, BED_MTU = 2048 };

/* Runs until the process ends, or the bed is closed. The fabric's name is of this process. */
void fabric_bed_open(void);
void fabric_bed_close(void);

/* From now on the thread does not sleep, until the bed is closed: no adapter has to wake it. */
void fabric_bed_stay_awake(void);

/* The name of the fabric. */
const char *fabric_bed_name(void);

/* Adapters that are opened from now on are at node 0 or 1 ("left", "right"). */
void fabric_bed_enter(int node);

/* The path between nodes; with GIDs or without. */
struct weft_path fabric_bed_path(int from, int to, bool has_gids);

/* Changes a port, and tells its adapters. */
void fabric_bed_change(int node, void (*change)(struct attach_state *state), uint32_t news);

/* While it is held nothing moves; only posts and ends of adapters may come meanwhile. */
void fabric_bed_hold(void);
void fabric_bed_release(void);

/* While it is held: as if it were so late for the hub. */
void fabric_bed_expire(uint64_t now_ns);

struct fabric_hub_counts fabric_bed_counts(void);

/* Waits until the hub has counted so; false: it does not. */
bool fabric_bed_await(bool (*is_so)(const struct fabric_hub_counts *counts));

/*
 * There are two paths between the nodes: frames to LIDs whose lowest bit is 0 go by one, others by
 * the other. What is sent by one that is cut is lost.
 */
enum { BED_PATHS = 2 };

void fabric_bed_cut(int path, bool is_cut);

/* Whether frames cross at once where none waits (at first they do not); how many have. */
void fabric_bed_let_cross(bool is_crossing);
uint64_t fabric_bed_crossed(void);

/* Frames that went from node to node, and how many came by a path. */
uint64_t fabric_bed_frames(void);
uint64_t fabric_bed_frames_by(int path, int to);
