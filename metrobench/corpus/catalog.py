"""Public speech corpora that `metrobench corpus pull` knows: address, checksum, licence, attribution."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from metrobench.errors import UsageError

COMMON_VOICE = "common-voice"
FLEURS = "fleurs-"
_FLEURS_URL = "https://huggingface.co/datasets/google/fleurs/resolve/main/data"

_FLEURS_CODES = (
    "af_za am_et ar_eg as_in ast_es az_az be_by bg_bg bn_in bs_ba ca_es ceb_ph ckb_iq cmn_hans_cn cs_cz cy_gb da_dk"
    " de_de el_gr en_us es_419 et_ee fa_ir ff_sn fi_fi fil_ph fr_fr ga_ie gl_es gu_in ha_ng he_il hi_in hr_hr hu_hu"
    " hy_am id_id ig_ng is_is it_it ja_jp jv_id ka_ge kam_ke kea_cv kk_kz km_kh kn_in ko_kr ky_kg lb_lu lg_ug ln_cd"
    " lo_la lt_lt luo_ke lv_lv mi_nz mk_mk ml_in mn_mn mr_in ms_my mt_mt my_mm nb_no ne_np nl_nl nso_za ny_mw oc_fr"
    " om_et or_in pa_in pl_pl ps_af pt_br ro_ro ru_ru sd_in sk_sk sl_si sn_zw so_so sr_rs sv_se sw_ke ta_in te_in"
    " tg_tj th_th tr_tr uk_ua umb_ao ur_pk uz_uz vi_vn wo_sn xh_za yo_ng yue_hant_hk zu_za"
)
"""Languages of google/fleurs (its dataset card)."""
FLEURS_LANGUAGES = frozenset(_FLEURS_CODES.split())


@dataclass(frozen=True, slots=True)
class Source:
    """One corpus as one archive."""

    name: str
    title: str
    url: str
    size: int | None
    """Bytes of the archive, where they are known beforehand."""
    md5: str | None
    """Published checksum of the archive; None: that of the server's answer is taken (X-Linked-ETag)."""
    language: str
    licence: str
    attribution: str
    page: str
    """Where its makers describe it."""
    texts: str | None = None
    """Address of the transcripts, where they are not in the archive."""


LIBRISPEECH = {
    # checksums: https://www.openslr.org/resources/12/md5sum.txt
    "dev-clean": (337_926_286, "42e2234ba48799c1f50f24a7926300a1"),
    "test-clean": (346_663_984, "32fa31d27d2e1cad72775fee3f4849a9"),
}


def find_source(name: str) -> Source:
    """A corpus that can be pulled, by name. Raises UsageError for others, with what to do about Common Voice."""
    part = name.removeprefix("librispeech-")
    if name.startswith("librispeech-") and part in LIBRISPEECH:
        return _librispeech(part)
    language = name.removeprefix(FLEURS)
    if name.startswith(FLEURS) and language in FLEURS_LANGUAGES:
        return _fleurs(language)
    if name.replace("_", "-").startswith((COMMON_VOICE, "commonvoice", "cv-corpus")):
        raise UsageError(
            "Common Voice needs an account, it has no plain address",
            "get it at https://commonvoice.mozilla.org/datasets, unpack it, then:\n"
            "  metrobench corpus add DIR/clips --name common-voice --language CODE\n"
            "    --transcripts DIR/validated.tsv --licence CC0-1.0",
        )
    near = get_close_matches(name, names(), 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(shown_names())}"
    raise UsageError(f"no corpus {name!r} is known", hint)


def names() -> list[str]:
    """Everything that can be pulled."""
    return [*(f"librispeech-{part}" for part in LIBRISPEECH), *(FLEURS + code for code in sorted(FLEURS_LANGUAGES))]


def shown_names() -> list[str]:
    """The same in a few words."""
    return [*(f"librispeech-{part}" for part in LIBRISPEECH), f"{FLEURS}LANGUAGE (fleurs-en_us, ...)"]


def _librispeech(part: str) -> Source:
    size, md5 = LIBRISPEECH[part]
    return Source(
        name=f"librispeech-{part}",
        title=f"LibriSpeech {part}: read English, 5.4 hours, 40 speakers",
        url=f"https://www.openslr.org/resources/12/{part}.tar.gz",
        size=size,
        md5=md5,
        language="en",
        licence="CC BY 4.0",
        attribution="V. Panayotov, G. Chen, D. Povey, S. Khudanpur: Librispeech, ICASSP 2015; recordings by LibriVox",
        page="https://www.openslr.org/12",
    )


def _fleurs(language: str) -> Source:
    return Source(
        name=FLEURS + language,
        title=f"FLEURS {language}, dev split: read sentences of Wikipedia",
        url=f"{_FLEURS_URL}/{language}/audio/dev.tar.gz",
        size=None,
        md5=None,
        language=language,
        licence="CC BY 4.0",
        attribution="A. Conneau et al.: FLEURS, SLT 2022; Google",
        page="https://huggingface.co/datasets/google/fleurs",
        texts=f"{_FLEURS_URL}/{language}/dev.tsv",
    )
