//! What the guard does with an instance. It touches no process but the `master` that has the lock of this very queue, and
//! that one's group.

use std::path::Path;

use anyhow::Result;

use crate::guard::Guard;

/// Arguments: the instance's directory, and Postfix's `master`. `master -t` succeeds where nobody holds the lock; a pid in
/// the file alone may be anybody's by now. A start that is still going on finds no configuration any more.
const SCRIPT: &str = r#"
"$2" -c "$1/etc" -t 2>/dev/null || {
    master=$(sed 1q "$1/spool/pid/master.pid" | tr -d ' ')
    [ -z "$master" ] || kill -KILL "-$master"
}
rm -rf "$1"
rm -rf "$1"
"#;

/// Watches over the instance in this directory.
pub(super) fn over(root: &Path) -> Result<Guard> {
    let master = Path::new(super::DAEMONS).join("master");
    Guard::new(SCRIPT, &[root.as_os_str(), master.as_os_str()], super::PATH)
}
