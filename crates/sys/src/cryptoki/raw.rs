//! The binary interface of PKCS #11 2.40 (OASIS, pkcs11t.h and pkcs11f.h) as far as it is called.

use std::ffi::{c_ulong, c_void};

/// CK_FUNCTION_LIST up to C_Sign; later functions are not called.
#[repr(C)]
pub(super) struct FunctionList {
    pub(super) version: [u8; 2],
    pub(super) functions: [*const c_void; FUNCTIONS],
}

const FUNCTIONS: usize = 44;

/// Places in the list of functions.
pub(super) mod function {
    pub(crate) const INITIALIZE: usize = 0;
    pub(crate) const GET_SLOT_LIST: usize = 4;
    pub(crate) const GET_TOKEN_INFO: usize = 6;
    pub(crate) const OPEN_SESSION: usize = 12;
    pub(crate) const CLOSE_SESSION: usize = 13;
    pub(crate) const GET_SESSION_INFO: usize = 15;
    pub(crate) const LOGIN: usize = 18;
    pub(crate) const GET_ATTRIBUTE_VALUE: usize = 24;
    pub(crate) const FIND_OBJECTS_INIT: usize = 26;
    pub(crate) const FIND_OBJECTS: usize = 27;
    pub(crate) const FIND_OBJECTS_FINAL: usize = 28;
    pub(crate) const SIGN_INIT: usize = 42;
    pub(crate) const SIGN: usize = 43;
}

/// CK_C_INITIALIZE_ARGS
#[repr(C)]
pub(super) struct InitializeArgs {
    pub(super) mutexes: [*const c_void; 4],
    pub(super) flags: c_ulong,
    pub(super) reserved: *mut c_void,
}

/// CKF_OS_LOCKING_OK
pub(super) const OS_LOCKING: c_ulong = 2;
/// CKF_SERIAL_SESSION
pub(super) const SERIAL_SESSION: c_ulong = 4;

/// CK_SESSION_INFO
#[repr(C)]
pub(super) struct RawSessionInfo {
    pub(super) slot: c_ulong,
    pub(super) state: c_ulong,
    pub(super) flags: c_ulong,
    pub(super) device_error: c_ulong,
}

/// CKS_RO_USER_FUNCTIONS
pub(super) const RO_USER: c_ulong = 1;
/// CKS_RW_USER_FUNCTIONS
pub(super) const RW_USER: c_ulong = 3;

/// CK_TOKEN_INFO
#[repr(C)]
pub(super) struct RawTokenInfo {
    pub(super) label: [u8; 32],
    pub(super) manufacturer: [u8; 32],
    pub(super) model: [u8; 16],
    pub(super) serial: [u8; 16],
    pub(super) flags: c_ulong,
    pub(super) counts: [c_ulong; 10],
    pub(super) versions: [u8; 4],
    pub(super) time: [u8; 16],
}

/// CK_ATTRIBUTE
#[repr(C)]
pub(super) struct RawAttribute {
    pub(super) kind: c_ulong,
    pub(super) value: *mut c_void,
    pub(super) length: c_ulong,
}

/// CK_MECHANISM
#[repr(C)]
pub(super) struct RawMechanism {
    pub(super) kind: c_ulong,
    pub(super) parameter: *mut c_void,
    pub(super) length: c_ulong,
}
