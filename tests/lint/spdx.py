# SPDX-License-Identifier: Apache-2.0
"""Each file says its licence."""
import lintlib

CHECK = "every source file has an SPDX line among its first three"

ENDINGS = (".c", ".h", ".S", ".py", ".sh", ".build", ".api", ".def", ".scd", ".ini",
           ".fish", ".bash", ".yaml", ".sbatch")
LINE = "SPDX-License-Identifier: Apache-2.0"

BAD = [{"a.c": "int x;\n"}, {"tools/x": "#!/bin/sh\nexit\n"},
       {"a.py": "\n\n\n# SPDX-License-Identifier: Apache-2.0\n"}]
GOOD = {"a.c": "/* SPDX-License-Identifier: Apache-2.0 */\n",
        "tools/x": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n", "README.md": "hello\n"}


def check(root):
    for path in lintlib.files(root):
        text = lintlib.read(root, path)
        if text is None or not (path.endswith(ENDINGS) or text.startswith("#!")):
            continue
        if LINE not in "\n".join(text.splitlines()[:3]):
            yield f"{path}:1: no SPDX line"


lintlib.run(__name__)
