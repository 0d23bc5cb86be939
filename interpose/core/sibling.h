/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NSPY_SIBLING_H
#define NSPY_SIBLING_H

/*
 * Saves the live pages of ranks of this job that died on this host, and of this process from
 * before an exec: a rank killed with SIGKILL cannot, and nobody may be there to do it after the
 * job. context: writer thread.
 */
void nspy_sibling_save(void);

#endif
