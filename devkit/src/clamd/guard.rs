//! What the guard does with an instance. It touches no process but one that was started with this very configuration.

use std::path::Path;

use anyhow::Result;

use crate::guard::Guard;

/// Argument: the instance's directory. clamd may have been started a moment ago, or again, so it is looked for among all
/// processes; a stopped one dies of SIGKILL, too. The second look is for one that was just being started.
const SCRIPT: &str = r#"
for look in 1 2; do
    for process in /proc/[0-9]*; do
        grep -qsF -e "--config-file=$1/clamd.conf" "$process/cmdline" && kill -KILL "${process#/proc/}" 2>/dev/null
    done
    rm -rf "$1"
done
rm -rf "$1"
"#;

/// Watches over the instance in this directory.
pub(super) fn over(root: &Path) -> Result<Guard> {
    Guard::new(SCRIPT, &[root.as_os_str()], super::PATH)
}
