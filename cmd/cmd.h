/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subcommands of weft, one file each. argv[0] is the subcommand's name. The result is the exit
 * status: 0 good, 1 failed, 2 wrongly called; that of weft run is its program's.
 */
#pragma once

int cmd_cluster(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_io(int argc, char **argv);
int cmd_iou(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_own(int argc, char **argv);
int cmd_perf(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_sim(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_version(int argc, char **argv);
