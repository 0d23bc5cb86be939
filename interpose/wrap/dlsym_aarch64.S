/* SPDX-License-Identifier: Apache-2.0 */
#include "dlsym.h"

	.hidden nspy_next_dlsym
	.hidden nspy_next_dlvsym
	.hidden nspy_elf_boot
	.hidden nspy_dlsym_filter
	.text

/* name(handle, symbol[, version]): see dlsym_x86_64.S. x16 and x17 are free between functions. */
.macro stub name, real, version
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	hint	#34			/* bti c */
	adrp	x17, \real
	ldr	x17, [x17, #:lo12:\real]
	cbz	x17, 1f
	cmn	x0, #1			/* RTLD_NEXT */
	b.eq	6f
1:	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset 29, -48
	.cfi_offset 30, -40
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	cbnz	x17, 3f
	bl	nspy_elf_boot
	ldp	x0, x1, [sp, #16]
	ldr	x2, [sp, #32]
	mov	x16, #NSPY_DLSYM_PASS
	cmn	x0, #1
	b.eq	4f
3:	\version
	ldr	x3, [sp, #8]		/* return address */
	bl	nspy_dlsym_filter
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldr	x2, [sp, #32]
4:	ldp	x29, x30, [sp], #48
	.cfi_def_cfa_offset 0
	.cfi_restore 29
	.cfi_restore 30
	cmp	x16, #NSPY_DLSYM_NONE
	b.eq	5f
	b.hi	7f
	adrp	x17, \real
	ldr	x17, [x17, #:lo12:\real]
	cbz	x17, 5f			/* there is none: NULL */
6:	br	x17
5:	mov	x16, #0
7:	mov	x0, x16
	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

	stub dlsym, nspy_next_dlsym, "mov x2, #0"
	stub dlvsym, nspy_next_dlvsym, ""

	.section .note.GNU-stack, "", %progbits
