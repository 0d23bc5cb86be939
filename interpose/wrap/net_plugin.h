/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a network plugin of NCCL says while it starts. NCCL looks a table of functions up in the
 * plugin; our dlsym gives it a copy in which the first functions, init and devices, are ours. They
 * pass everything on, with a logger of ours in place of NCCL's that hears the plugin's lines, also
 * without NCCL_DEBUG, before NCCL gets them.
 *
 * Source: plugin/net/net_v*.h of NCCL 2.12 to 2.30: every version of the table begins with name,
 * init and devices; init has the logger first up to version 10, fourth since 11.
 */
#ifndef NSPY_NET_PLUGIN_H
#define NSPY_NET_PLUGIN_H

/*
 * name: what was looked up, table: what was found. The copy; or NULL if it is no table that we
 * know, if nothing is recorded, or all places are taken. Facts: net_plugin.name, .api, .version,
 * .libfabric, .protocol, .provider, .init, .devices, .error. context: any thread; cold.
 */
void *nspy_net_plugin_table(const char *name, void *table);

#endif
