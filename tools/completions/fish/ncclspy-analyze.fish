# SPDX-License-Identifier: Apache-2.0
set -l commands report compare logs check dump explain
set -l report "not __fish_seen_subcommand_from compare logs check dump explain"
complete -c ncclspy-analyze -n "not __fish_seen_subcommand_from $commands" -a "$commands"
complete -c ncclspy-analyze -n $report -l attempt -x -d 'start of the job to analyse'
complete -c ncclspy-analyze -n "not __fish_seen_subcommand_from check dump explain" -l fail-on -x -a 'P0 P1 P2 none' -d 'exit 1 from this priority on'
complete -c ncclspy-analyze -n $report -l hang-after -x -d 'what counts as waiting in vain, seconds'
complete -c ncclspy-analyze -n $report -l ignore -r -F -d 'findings known and accepted'
complete -c ncclspy-analyze -n "not __fish_seen_subcommand_from logs check dump explain" -l csv -r -F -d 'findings as a table'
complete -c ncclspy-analyze -n "not __fish_seen_subcommand_from logs check dump explain" -l junit -r -F -d 'findings as JUnit XML'
complete -c ncclspy-analyze -n "not __fish_seen_subcommand_from logs check dump explain" -l sarif -r -F -d 'findings as SARIF'
complete -c ncclspy-analyze -n $report -l verify -r -F -d 'compare with an earlier report'
complete -c ncclspy-analyze -n "__fish_seen_subcommand_from compare" -l base -r -F -d 'a run to compare with'
complete -c ncclspy-analyze -n "__fish_seen_subcommand_from compare" -l min-effect -x -d 'smaller changes are no regression, percent'
complete -c ncclspy-analyze -n "__fish_seen_subcommand_from compare" -l save-baseline -r -F -d 'write the runs to a file'
complete -c ncclspy-analyze -n "__fish_seen_subcommand_from dump" -l comm -x -d 'only this communicator'
complete -c ncclspy-analyze -n "__fish_seen_subcommand_from dump" -l rank -x -d 'only this rank'
complete -c ncclspy-analyze -n "not __fish_seen_subcommand_from explain" -l json -d 'machine-readable output'
complete -c ncclspy-analyze -n "not __fish_seen_subcommand_from explain" -l no-color -d 'no colour'
complete -c ncclspy-analyze -n "__fish_seen_subcommand_from explain" -x -a '(ncclspy-analyze explain | string split -f2 " ")'
complete -c ncclspy-analyze -s V -l version -d 'show the version'
complete -c ncclspy-analyze -s h -l help -d 'show help'
