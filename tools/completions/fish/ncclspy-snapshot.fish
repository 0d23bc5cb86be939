# SPDX-License-Identifier: Apache-2.0
complete -c ncclspy-snapshot -n __fish_use_subcommand -a compare -d 'show where nodes differ'
complete -c ncclspy-snapshot -l json -d 'machine-readable output'
complete -c ncclspy-snapshot -l interval -x -d 'seconds between two readings of counters'
complete -c ncclspy-snapshot -l nvml -r -F -d 'load this library instead of libnvidia-ml.so.1'
complete -c ncclspy-snapshot -l root -r -F -d 'read a recorded tree instead of this host'
complete -c ncclspy-snapshot -l after -r -F -d 'tree for the second reading of counters'
complete -c ncclspy-snapshot -s V -l version -d 'print the version'
complete -c ncclspy-snapshot -s h -l help -d 'print help'
