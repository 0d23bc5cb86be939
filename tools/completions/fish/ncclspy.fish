# SPDX-License-Identifier: Apache-2.0
complete -c ncclspy -n __fish_use_subcommand -x -a run -d 'run a command with its NCCL calls recorded'
complete -c ncclspy -n __fish_use_subcommand -x -a report -d 'what went wrong in a job'
complete -c ncclspy -n __fish_use_subcommand -x -a explain -d 'a finding, its causes and checks'
complete -c ncclspy -n __fish_use_subcommand -x -a dump -d 'the recorded calls as text'
complete -c ncclspy -n __fish_use_subcommand -x -a check -d 'whether traces are whole'
complete -c ncclspy -n __fish_use_subcommand -x -a ls -d 'recorded jobs, newest first'
complete -c ncclspy -n __fish_use_subcommand -x -a help -d 'list the commands'
