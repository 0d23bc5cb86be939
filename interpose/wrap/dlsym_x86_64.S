/* SPDX-License-Identifier: Apache-2.0 */
#include "dlsym.h"
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

	.hidden nspy_next_dlsym
	.hidden nspy_next_dlvsym
	.hidden nspy_elf_boot
	.hidden nspy_dlsym_filter
	.text

/*
 * name(handle, symbol[, version]). On the way to the real function the stack and the argument
 * registers are those of the caller. version: the instruction that sets the filter's third
 * argument.
 */
.macro stub name, real, version
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	_CET_ENDBR
	cmpq	$0, \real(%rip)
	je	1f
	cmpq	$-1, %rdi		/* RTLD_NEXT */
	je	2f
1:	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	cmpq	$0, \real(%rip)
	jne	3f
	call	nspy_elf_boot
	movq	(%rsp), %rdx
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdi
	xorl	%eax, %eax		/* pass on */
	cmpq	$-1, %rdi
	je	4f
3:	\version
	movq	24(%rsp), %rcx		/* return address */
	call	nspy_dlsym_filter
4:	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	cmpq	$NSPY_DLSYM_NONE, %rax
	je	5f
	ja	6f
2:	movq	\real(%rip), %rax
	testq	%rax, %rax
	je	6f			/* there is none: NULL */
	jmp	*%rax
5:	xorl	%eax, %eax
6:	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

	stub dlsym, nspy_next_dlsym, "xorl %edx, %edx"
	stub dlvsym, nspy_next_dlvsym, ""

	.section .note.GNU-stack, "", @progbits
