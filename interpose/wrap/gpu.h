/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NSPY_GPU_H
#define NSPY_GPU_H

/*
 * Notes which GPU this process uses (facts gpu.index, gpu.pci, gpu.uuid), once, when its first
 * communicator is ready: the calling thread's context is then the communicator's. Asks the driver,
 * which is loaded already, three questions that change nothing. context: the application's thread,
 * in a call that creates a communicator; cold.
 */
void nspy_gpu_note(void);

#endif
