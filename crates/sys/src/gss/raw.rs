//! The C declarations of RFC 2744 and of MIT's extensions that [`super`] calls, for MIT's
//! libgssapi_krb5.so.2.

use std::ffi::{c_char, c_int, c_long, c_void};

use crate::dynlib::Library;

/// gss_buffer_desc.
#[repr(C)]
pub(super) struct RawBuffer {
    pub(super) length: usize,
    pub(super) value: *mut c_void,
}

/// gss_OID_desc.
#[repr(C)]
pub(super) struct RawOid {
    pub(super) length: u32,
    pub(super) elements: *const u8,
}

/// gss_OID_set_desc.
#[repr(C)]
pub(super) struct RawOidSet {
    pub(super) count: usize,
    pub(super) elements: *const RawOid,
}

/// gss_key_value_element_desc.
#[repr(C)]
pub(super) struct RawKeyValue {
    pub(super) key: *const c_char,
    pub(super) value: *const c_char,
}

/// gss_key_value_set_desc.
#[repr(C)]
pub(super) struct RawKeyValueSet {
    pub(super) count: u32,
    pub(super) elements: *const RawKeyValue,
}

/// A context, credential or name of the library, or null.
pub(super) type Opaque = *mut c_void;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),* $(,)?) -> $result:ty;)*) => {
        /// The library's functions.
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// Looks the functions up; the error is the loader's message.
            pub(super) fn of(library: &Library) -> Result<Self, String> {
                Ok(Self {
                    $($field: {
                        let address = library.symbol($name)?.as_ptr();
                        // SAFETY: the library exports a function of this name with this signature
                        // (RFC 2744, gssapi_ext.h, krb5.h and profile.h of MIT, unchanged since 1.11).
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> $result,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    import_name = c"gss_import_name": fn(*mut u32, *const RawBuffer, *const RawOid, *mut Opaque) -> u32;
    release_name = c"gss_release_name": fn(*mut u32, *mut Opaque) -> u32;
    display_name = c"gss_display_name": fn(*mut u32, Opaque, *mut RawBuffer, *mut *const RawOid) -> u32;
    export_name = c"gss_export_name": fn(*mut u32, Opaque, *mut RawBuffer) -> u32;
    acquire_cred_from = c"gss_acquire_cred_from": fn(
        *mut u32, Opaque, u32, *const RawOidSet, c_int, *const RawKeyValueSet, *mut Opaque,
        *mut *mut RawOidSet, *mut u32,
    ) -> u32;
    acquire_cred_with_password = c"gss_acquire_cred_with_password": fn(
        *mut u32, Opaque, *const RawBuffer, u32, *const RawOidSet, c_int, *mut Opaque,
        *mut *mut RawOidSet, *mut u32,
    ) -> u32;
    inquire_cred = c"gss_inquire_cred": fn(
        *mut u32, Opaque, *mut Opaque, *mut u32, *mut c_int, *mut *mut RawOidSet,
    ) -> u32;
    release_cred = c"gss_release_cred": fn(*mut u32, *mut Opaque) -> u32;
    init_sec_context = c"gss_init_sec_context": fn(
        *mut u32, Opaque, *mut Opaque, Opaque, *const RawOid, u32, u32, *mut c_void, *const RawBuffer,
        *mut *const RawOid, *mut RawBuffer, *mut u32, *mut u32,
    ) -> u32;
    accept_sec_context = c"gss_accept_sec_context": fn(
        *mut u32, *mut Opaque, Opaque, *const RawBuffer, *mut c_void, *mut Opaque, *mut *const RawOid,
        *mut RawBuffer, *mut u32, *mut u32, *mut Opaque,
    ) -> u32;
    delete_sec_context = c"gss_delete_sec_context": fn(*mut u32, *mut Opaque, *mut RawBuffer) -> u32;
    get_mic = c"gss_get_mic": fn(*mut u32, Opaque, u32, *const RawBuffer, *mut RawBuffer) -> u32;
    verify_mic = c"gss_verify_mic": fn(*mut u32, Opaque, *const RawBuffer, *const RawBuffer, *mut u32) -> u32;
    release_buffer = c"gss_release_buffer": fn(*mut u32, *mut RawBuffer) -> u32;
    display_status = c"gss_display_status": fn(*mut u32, u32, c_int, *const RawOid, *mut u32, *mut RawBuffer) -> u32;
    export_cred = c"gss_export_cred": fn(*mut u32, Opaque, *mut RawBuffer) -> u32;
    import_cred = c"gss_import_cred": fn(*mut u32, *const RawBuffer, *mut Opaque) -> u32;
    store_cred_into = c"gss_store_cred_into": fn(
        *mut u32, Opaque, c_int, *const RawOid, u32, u32, *const RawKeyValueSet, *mut *mut RawOidSet,
        *mut c_int,
    ) -> u32;
    userok = c"gss_userok": fn(Opaque, *const c_char) -> c_int;
    krb5_init = c"krb5_init_context": fn(*mut Opaque) -> i32;
    krb5_free = c"krb5_free_context": fn(Opaque) -> ();
    krb5_cc_default_name = c"krb5_cc_default_name": fn(Opaque) -> *const c_char;
    krb5_get_profile = c"krb5_get_profile": fn(Opaque, *mut Opaque) -> i32;
    profile_get_string = c"profile_get_string": fn(
        Opaque, *const c_char, *const c_char, *const c_char, *const c_char, *mut *mut c_char,
    ) -> c_long;
    profile_release_string = c"profile_release_string": fn(*mut c_char) -> ();
    profile_release = c"profile_release": fn(Opaque) -> ();
    krb5_kt_default_name = c"krb5_kt_default_name": fn(Opaque, *mut c_char, c_int) -> i32;
}
