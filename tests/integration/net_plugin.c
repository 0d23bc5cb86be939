/* SPDX-License-Identifier: Apache-2.0 */
/* An object with the name of a network plugin; the stand-in for NCCL does not use it. */
int nspy_test_net_plugin;
