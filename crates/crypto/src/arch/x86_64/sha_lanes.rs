//! SHA-2 and SHA-1 (FIPS 180-4 §6) with one message in each lane of a vector, written once for any
//! vector length: a module `ops` of each kernel defines the operations.
//!
//! Words 16 and up of the schedule overwrite the sixteen before them, so that eight state words,
//! sixteen schedule words and temporaries fit into 32 registers.

pub(super) use crate::arch::sha::constants::{K_256, K_512};

/// FIPS 180-4 §4.2.1, by twenty rounds.
pub(super) const K_1: [u32; 4] = [0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc, 0xca62_c1d6];

/// The compression function of SHA-256 or SHA-512: the groups of sixteen rounds
/// and the rotations of FIPS 180-4 §4.1.2 and §4.1.3 (the last of `small0` and
/// `small1` is a shift).
macro_rules! sha2 {
    (
        $(#[$doc:meta])*
        $name:ident, $features:literal, $ops:ident, $word:ty, $lanes:literal, $block:literal,
        $constants:expr,
        big0: $big0:tt, big1: $big1:tt, small0: $small0:tt, small1: $small1:tt
    ) => {
        $(#[$doc])*
        #[target_feature(enable = $features)]
        fn $name(states: &mut States<$word, $lanes>, lanes: Lanes<'_, $block, $lanes>) {
            let count = lanes.iter().map(|lane| lane.len()).min().unwrap_or(0);
            for at in 0..count {
                let mut blocks = [&[0; $block]; $lanes];
                for (block, lane) in blocks.iter_mut().zip(lanes) {
                    // SAFETY: every lane has at least `count` blocks.
                    *block = unsafe { lane.get_unchecked(at) };
                }
                let mut w = $ops::load_words(&blocks);
                let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] =
                    $ops::load(&states.0);
                let [scheduled @ .., last] = &$constants;
                for k in scheduled {
                    sha2!(@sixteen $ops, w, k, (a b c d e f g h), $big0, $big1,
                        { scheduled $small0 $small1 });
                }
                sha2!(@sixteen $ops, w, last, (a b c d e f g h), $big0, $big1, { used_up });
                $ops::add_to(&mut states.0, [a, b, c, d, e, f, g, h]);
            }
        }
    };
    (@sixteen $o:ident, $w:ident, $k:ident,
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident),
        $big0:tt, $big1:tt, $then:tt
    ) => {
        sha2!(@eight $o, $w, $k, 0, ($a $b $c $d $e $f $g $h), $big0, $big1, $then);
        sha2!(@eight $o, $w, $k, 8, ($a $b $c $d $e $f $g $h), $big0, $big1, $then);
    };
    (@eight $o:ident, $w:ident, $k:ident, $i:literal,
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident),
        $big0:tt, $big1:tt, $then:tt
    ) => {
        sha2!(@round $o, $w, $k, $i, ($a $b $c $d $e $f $g $h), $big0, $big1, $then);
        sha2!(@round $o, $w, $k, $i + 1, ($h $a $b $c $d $e $f $g), $big0, $big1, $then);
        sha2!(@round $o, $w, $k, $i + 2, ($g $h $a $b $c $d $e $f), $big0, $big1, $then);
        sha2!(@round $o, $w, $k, $i + 3, ($f $g $h $a $b $c $d $e), $big0, $big1, $then);
        sha2!(@round $o, $w, $k, $i + 4, ($e $f $g $h $a $b $c $d), $big0, $big1, $then);
        sha2!(@round $o, $w, $k, $i + 5, ($d $e $f $g $h $a $b $c), $big0, $big1, $then);
        sha2!(@round $o, $w, $k, $i + 6, ($c $d $e $f $g $h $a $b), $big0, $big1, $then);
        sha2!(@round $o, $w, $k, $i + 7, ($b $c $d $e $f $g $h $a), $big0, $big1, $then);
    };
    (@round $o:ident, $w:ident, $k:ident, $i:expr,
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident),
        $big0:tt, $big1:tt, $then:tt
    ) => {
        $h = $o::add($h, $o::add($w[$i], $o::splat($k[$i])));
        $h = $o::add($h, $o::ch($e, $f, $g));
        $h = $o::add($h, sha2!(@rotations $o, $e, $big1));
        $d = $o::add($d, $h);
        $h = $o::add($h, $o::maj($a, $b, $c));
        $h = $o::add($h, sha2!(@rotations $o, $a, $big0));
        sha2!(@then $o, $w, $i, $then);
    };
    (@then $o:ident, $w:ident, $i:expr, { used_up }) => {};
    (@then $o:ident, $w:ident, $i:expr, { scheduled $small0:tt $small1:tt }) => {
        let early = $w[($i + 1) % 16];
        let late = $w[($i + 14) % 16];
        let sum = $o::add($w[$i], $w[($i + 9) % 16]);
        let sum = $o::add(sum, sha2!(@shift $o, early, $small0));
        $w[$i] = $o::add(sum, sha2!(@shift $o, late, $small1));
    };
    (@rotations $o:ident, $x:ident, ($r:literal, $s:literal, $t:literal)) => {
        $o::xor3(
            $o::rotate::<$r, { $o::BITS - $r }>($x),
            $o::rotate::<$s, { $o::BITS - $s }>($x),
            $o::rotate::<$t, { $o::BITS - $t }>($x),
        )
    };
    (@shift $o:ident, $x:ident, ($r:literal, $s:literal, $t:literal)) => {
        $o::xor3(
            $o::rotate::<$r, { $o::BITS - $r }>($x),
            $o::rotate::<$s, { $o::BITS - $s }>($x),
            $o::shift::<$t>($x),
        )
    };
}

/// The compression function of SHA-1.
macro_rules! sha1 {
    (
        $(#[$doc:meta])*
        $name:ident, $features:literal, $ops:ident, $lanes:literal
    ) => {
        $(#[$doc])*
        #[target_feature(enable = $features)]
        fn $name(states: &mut States<u32, $lanes>, lanes: Lanes<'_, 64, $lanes>) {
            let count = lanes.iter().map(|lane| lane.len()).min().unwrap_or(0);
            for at in 0..count {
                let mut blocks = [&[0; 64]; $lanes];
                for (block, lane) in blocks.iter_mut().zip(lanes) {
                    // SAFETY: every lane has at least `count` blocks.
                    *block = unsafe { lane.get_unchecked(at) };
                }
                let mut w = $ops::load_words(&blocks);
                let [mut a, mut b, mut c, mut d, mut e] = $ops::load(&states.0);
                let [k0, k20, k40, k60] = K_1.map(|k| $ops::splat(k));
                sha1!(@twenty $ops, w, 0, k0, ch, (a b c d e));
                sha1!(@twenty $ops, w, 20, k20, xor3, (a b c d e));
                sha1!(@twenty $ops, w, 40, k40, maj, (a b c d e));
                sha1!(@twenty $ops, w, 60, k60, xor3, (a b c d e));
                $ops::add_to(&mut states.0, [a, b, c, d, e]);
            }
        }
    };
    (@twenty $o:ident, $w:ident, $t:literal, $k:ident, $f:ident, $abcde:tt) => {
        sha1!(@five $o, $w, $t, $k, $f, $abcde);
        sha1!(@five $o, $w, $t + 5, $k, $f, $abcde);
        sha1!(@five $o, $w, $t + 10, $k, $f, $abcde);
        sha1!(@five $o, $w, $t + 15, $k, $f, $abcde);
    };
    (@five $o:ident, $w:ident, $t:expr, $k:ident, $f:ident,
        ($a:ident $b:ident $c:ident $d:ident $e:ident)
    ) => {
        sha1!(@round $o, $w, $t, $k, $f, ($a $b $c $d $e));
        sha1!(@round $o, $w, $t + 1, $k, $f, ($e $a $b $c $d));
        sha1!(@round $o, $w, $t + 2, $k, $f, ($d $e $a $b $c));
        sha1!(@round $o, $w, $t + 3, $k, $f, ($c $d $e $a $b));
        sha1!(@round $o, $w, $t + 4, $k, $f, ($b $c $d $e $a));
    };
    (@round $o:ident, $w:ident, $t:expr, $k:ident, $f:ident,
        ($a:ident $b:ident $c:ident $d:ident $e:ident)
    ) => {
        if $t >= 16 {
            let former = $o::xor3($w[($t + 2) % 16], $w[($t + 8) % 16], $w[($t + 13) % 16]);
            $w[$t % 16] = $o::rotate::<31, 1>($o::xor($w[$t % 16], former));
        }
        $e = $o::add($e, $o::add($w[$t % 16], $k));
        $e = $o::add($e, $o::$f($b, $c, $d));
        $e = $o::add($e, $o::rotate::<27, 5>($a));
        $b = $o::rotate::<2, 30>($b);
    };
}

pub(super) use {sha1, sha2};
