//! Messages between systemd 252, its tools and logind, as `strace -xx` recorded them.

/// `busctl call ... StartTransientUnit`, its second message on the connection. The process was 517.
pub(super) const BUSCTL_START: &[u8] = b"\
    l\x01\0\x01\xe0\0\0\0\x02\0\0\0\xb6\0\0\0\x01\x01o\0\x19\0\0\0/org/freedesktop/systemd1\0\0\0\0\0\
    \0\0\x03\x01s\0\x12\0\0\0StartTransientUnit\0\0\0\0\0\0\x02\x01s\0 \0\0\0org.freedesktop.systemd1.\
    Manager\0\0\0\0\0\0\0\0\x06\x01s\0\x18\0\0\0org.freedesktop.systemd1\0\0\0\0\0\0\0\0\x08\x01g\0\
    \x10ssa(sv)a(sa(sv))\0\0\0\x13\0\0\0berth-s1-4242.scope\0\x04\0\0\0fail\0\0\0\0\xb0\0\0\0\x0b\0\0\
    \0Description\0\x01s\0\0\x10\0\0\0berth session s1\0\0\0\0\0\0\0\0\x05\0\0\0Slice\0\x01s\0\0\0\0\
    \x09\0\0\0app.slice\0\0\0\x0b\0\0\0CollectMode\0\x01s\0\0\x12\0\0\0inactive-or-failed\0\0\0\0\0\0\
    \x08\0\0\0Delegate\0\x01b\0\x01\0\0\0\0\0\0\0\x04\0\0\0PIDs\0\x02au\0\0\0\0\x04\0\0\0\x05\x02\0\0\
    \0\0\0\0\0\0\0\0";

/// The manager agrees to a client that introduced itself (and offered to pass descriptors).
pub(super) const GREETING: &[u8] = b"\
    DATA\r\nOK d5fdb11722bb4520b9b733e403c8d572\r\nAGREE_UNIX_FD\r\n";

/// The manager to `systemd-run --scope`: `UnitNew`, `JobNew`, the answer, `PropertiesChanged`, `JobRemoved`.
pub(super) const STARTED: &[u8] = b"\
    l\x04\x01\x01U\0\0\0\x01\0\0\0\x98\0\0\0\x01\x01o\0\x19\0\0\0/org/freedesktop/systemd1\0\0\0\0\0\0\
    \0\x02\x01s\0 \0\0\0org.freedesktop.systemd1.Manager\0\0\0\0\0\0\0\0\x03\x01s\0\x07\0\0\0UnitNew\0\
    \x07\x01s\0\x18\0\0\0org.freedesktop.systemd1\0\0\0\0\0\0\0\0\x08\x01g\0\x02so\0\x13\0\0\0berth-s1\
    -4242.scope\x008\0\0\0/org/freedesktop/systemd1/unit/berth_2ds1_2d4242_2escope\0l\x04\x01\x01D\0\0\0\
    \x02\0\0\0\x99\0\0\0\x01\x01o\0\x19\0\0\0/org/freedesktop/systemd1\0\0\0\0\0\0\0\x02\x01s\0 \0\0\0\
    org.freedesktop.systemd1.Manager\0\0\0\0\0\0\0\0\x03\x01s\0\x06\0\0\0JobNew\0\0\x07\x01s\0\x18\0\0\
    \0org.freedesktop.systemd1\0\0\0\0\0\0\0\0\x08\x01g\0\x03uos\0\0\0\0\0\0\0\0\xf2\x05\0\0\"\0\0\0/o\
    rg/freedesktop/systemd1/job/1522\0\0\x13\0\0\0berth-s1-4242.scope\0l\x02\x01\x01'\0\0\0\x03\0\0\x007\
    \0\0\0\x05\x01u\0\x01\0\0\0\x07\x01s\0\x18\0\0\0org.freedesktop.systemd1\0\0\0\0\0\0\0\0\x08\x01g\
    \0\x01o\0\0\"\0\0\0/org/freedesktop/systemd1/job/1522\0l\x04\x01\x01h\0\0\0\x06\0\0\0\xc6\0\0\0\
    \x01\x01o\x008\0\0\0/org/freedesktop/systemd1/unit/berth_2ds1_2d4242_2escope\0\0\0\0\0\0\0\0\x02\x01\
    s\0\x1f\0\0\0org.freedesktop.DBus.Properties\0\x03\x01s\0\x11\0\0\0PropertiesChanged\0\0\0\0\0\0\0\
    \x07\x01s\0\x18\0\0\0org.freedesktop.systemd1\0\0\0\0\0\0\0\0\x08\x01g\0\x08sa{sv}as\0\0\0\x1e\0\0\
    \0org.freedesktop.systemd1.Scope\0\0<\0\0\0\n\0\0\0Controller\0\x01s\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \x06\0\0\0Result\0\x01s\0\0\0\x07\0\0\0success\0\0\0\0\0l\x04\x01\x01M\0\0\0\n\0\0\0\xa2\0\0\0\x01\
    \x01o\0\x19\0\0\0/org/freedesktop/systemd1\0\0\0\0\0\0\0\x02\x01s\0 \0\0\0org.freedesktop.systemd1\
    .Manager\0\0\0\0\0\0\0\0\x03\x01s\0\n\0\0\0JobRemoved\0\0\0\0\0\0\x07\x01s\0\x18\0\0\0org.freedesk\
    top.systemd1\0\0\0\0\0\0\0\0\x08\x01g\0\x04uoss\0\0\0\0\0\0\0\xf2\x05\0\0\"\0\0\0/org/freedesktop/\
    systemd1/job/1522\0\0\x13\0\0\0berth-s1-4242.scope\0\x04\0\0\0done\0";

/// The manager to `systemd-run --scope` for a name that is taken.
pub(super) const EXISTS: &[u8] = b"\
    l\x03\x01\x01H\0\0\0\x01\0\0\0g\0\0\0\x05\x01u\0\x01\0\0\0\x04\x01s\0#\0\0\0org.freedesktop.system\
    d1.UnitExists\0\0\0\0\0\x07\x01s\0\x18\0\0\0org.freedesktop.systemd1\0\0\0\0\0\0\0\0\x08\x01g\0\
    \x01s\0\0C\0\0\0Unit berth-s1-4243.scope was already loaded or has a fragment file.\0";

/// `busctl get-property`, its first message.
pub(super) const BUSCTL_HELLO: &[u8] = b"\
    l\x01\0\x01\0\0\0\0\x01\0\0\0m\0\0\0\x01\x01o\0\x15\0\0\0/org/freedesktop/DBus\0\0\0\x03\x01s\0\
    \x05\0\0\0Hello\0\0\0\x02\x01s\0\x14\0\0\0org.freedesktop.DBus\0\0\0\0\x06\x01s\0\x14\0\0\0org.fre\
    edesktop.DBus\0\0\0\0";

/// `busctl get-property ... Linger` of user 1000, its second message.
pub(super) const BUSCTL_LINGER: &[u8] = b"\
    l\x01\0\x01+\0\0\0\x02\0\0\0\x90\0\0\0\x01\x01o\0\"\0\0\0/org/freedesktop/login1/user/_1000\0\0\0\
    \0\0\0\x03\x01s\0\x03\0\0\0Get\0\0\0\0\0\x02\x01s\0\x1f\0\0\0org.freedesktop.DBus.Properties\0\x06\
    \x01s\0\x16\0\0\0org.freedesktop.login1\0\0\x08\x01g\0\x02ss\0\x1b\0\0\0org.freedesktop.login1.Use\
    r\0\x06\0\0\0Linger\0";

/// The bus and logind to that: the answer to `Hello`, `NameAcquired`, and no.
pub(super) const NOT_LINGERING: &[u8] = b"\
    l\x02\x01\x01\n\0\0\0\x01\0\0\0=\0\0\0\x06\x01s\0\x05\0\0\0:1.59\0\0\0\x05\x01u\0\x01\0\0\0\x08\
    \x01g\0\x01s\0\0\x07\x01s\0\x14\0\0\0org.freedesktop.DBus\0\0\0\0\x05\0\0\0:1.59\0l\x04\x01\x01\n\
    \0\0\0\x02\0\0\0\x8d\0\0\0\x01\x01o\0\x15\0\0\0/org/freedesktop/DBus\0\0\0\x02\x01s\0\x14\0\0\0org\
    .freedesktop.DBus\0\0\0\0\x03\x01s\0\x0c\0\0\0NameAcquired\0\0\0\0\x06\x01s\0\x05\0\0\0:1.59\0\0\0\
    \x08\x01g\0\x01s\0\0\x07\x01s\0\x14\0\0\0org.freedesktop.DBus\0\0\0\0\x05\0\0\0:1.59\0l\x02\x01\
    \x01\x08\0\0\0\x92\x02\0\0-\0\0\0\x05\x01u\0\x02\0\0\0\x06\x01s\0\x05\0\0\0:1.59\0\0\0\x08\x01g\0\
    \x01v\0\0\x07\x01s\0\x04\0\0\0:1.1\0\0\0\0\x01b\0\0\0\0\0\0";

/// Logind's answer for a user who is not logged in.
pub(super) const NOBODY: &[u8] = b"\
    l\x02\x01\x01\n\0\0\0\x01\0\0\0=\0\0\0\x06\x01s\0\x05\0\0\0:1.61\0\0\0\x05\x01u\0\x01\0\0\0\x08\
    \x01g\0\x01s\0\0\x07\x01s\0\x14\0\0\0org.freedesktop.DBus\0\0\0\0\x05\0\0\0:1.61\0l\x04\x01\x01\n\
    \0\0\0\x02\0\0\0\x8d\0\0\0\x01\x01o\0\x15\0\0\0/org/freedesktop/DBus\0\0\0\x02\x01s\0\x14\0\0\0org\
    .freedesktop.DBus\0\0\0\0\x03\x01s\0\x0c\0\0\0NameAcquired\0\0\0\0\x06\x01s\0\x05\0\0\0:1.61\0\0\0\
    \x08\x01g\0\x01s\0\0\x07\x01s\0\x14\0\0\0org.freedesktop.DBus\0\0\0\0\x05\0\0\0:1.61\0l\x03\x01\
    \x019\0\0\0\x94\x02\0\0e\0\0\0\x05\x01u\0\x02\0\0\0\x06\x01s\0\x05\0\0\0:1.61\0\0\0\x04\x01s\0(\0\
    \0\0org.freedesktop.DBus.Error.UnknownObject\0\0\0\0\0\0\0\0\x08\x01g\0\x01s\0\0\x07\x01s\0\x04\0\
    \0\0:1.1\0\0\0\x004\0\0\0Unknown object '/org/freedesktop/login1/user/_1001'.\0";
