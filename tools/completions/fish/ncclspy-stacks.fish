# SPDX-License-Identifier: Apache-2.0
complete -c ncclspy-stacks -f
complete -c ncclspy-stacks -s a -l all-threads -d 'all threads of each process'
complete -c ncclspy-stacks -s n -l node -d 'all processes of this node with NCCL'
complete -c ncclspy-stacks -l json -d 'machine-readable output'
complete -c ncclspy-stacks -l ras -d 'ask the RAS service of NCCL too'
complete -c ncclspy-stacks -s h -l help -d 'print help'
complete -c ncclspy-stacks -s V -l version -d 'print the version'
complete -c ncclspy-stacks -a '(__fish_complete_pids)'
