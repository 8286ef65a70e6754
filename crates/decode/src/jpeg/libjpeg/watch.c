/* Sees every message of libjpeg-turbo while a TurboJPEG handle decodes, and what is left unread at the end of each scan.
 *
 * TurboJPEG tells the first warning alone. Its handle begins with libjpeg's own two structures, whose error manager calls what is put
 * there for every warning and every marker. Neither that order nor the beginning of an entropy decoder is public: the version of the
 * library is pinned, gpulane_watch_begin() checks what can be checked, and tests look at files whose leftovers are known.
 */

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#if JPEG_LIB_VERSION != 62 || LIBJPEG_TURBO_VERSION_NUMBER != 3001000
#error "look at the order of TurboJPEG's handle and of libjpeg's entropy decoders in this version"
#endif

/* As TurboJPEG's `tjinstance` begins; the error manager follows. */
struct handle {
  struct jpeg_compress_struct compress;
  struct jpeg_decompress_struct decompress;
};

/* As the Huffman decoders begin: sequential, progressive and lossless. */
struct entropy {
  void (*functions[4])(void);
  boolean insufficient_data;
  size_t buffer;
  int left;
};

/* As its reader of markers begins. */
struct marker {
  void (*functions[3])(void);
  boolean saw_start, saw_frame;
  int next_restart;
  unsigned int discarded;
};

/* Kinds of warnings, in the order of `Kind` in mod.rs. */
enum {
  OTHER,
  COLOURS,
  ORDER,
  PRECISION,
  BAD_CODE,
  MISSING,
  RESTART,
  HEADER_JUNK,
  SCAN_JUNK,
  END,
  KINDS
};

/* What stands unread between a scan and the next marker. */
struct leftover {
  /* Bytes. */
  unsigned int bytes;
  /* Bits of the last byte that was begun, and what they are. */
  unsigned int bits, padding;
  /* Where in the file they end, if the end of the image follows; otherwise 0. */
  size_t end;
};

/* As `Watch` in mod.rs. */
struct watch {
  /* TurboJPEG's own. */
  void (*emit)(j_common_ptr, int);
  void (*leave)(j_common_ptr);
  const unsigned char *data;
  size_t size;
  /* The scan whose end was seen last. */
  int scan;
  /* Bytes before restarts that were unread and that no warning has told yet. */
  unsigned int discarded;
  /* Components that had a scan, a bit for each. */
  unsigned int scanned;
  unsigned int counts[KINDS];
  /* Stretches before the last that left bytes: those before restarts, and scans before others. And what the last scan left. */
  unsigned int unfinished;
  struct leftover last;
  /* The file's end was reached with every scan that it should have. */
  int complete;
  /* Components without any image data at the end of the image. */
  unsigned int lacking;
  /* The image data is coded arithmetically. Zeros are read behind its end, by the standard, so that nothing is said where some is missing. */
  int arithmetic;
  /* An error ended it. */
  int fatal;
};

static int kind(j_decompress_ptr info) {
  const int *words = info->err->msg_parm.i;

  switch (info->err->msg_code) {
  case JWRN_ADOBE_XFORM:
    return COLOURS;
  case JWRN_ARITH_BAD_CODE:
  case JWRN_HUFF_BAD_CODE:
    return BAD_CODE;
  case JWRN_BOGUS_PROGRESSION:
    /* Coefficients before the first one of their blocks come as they should, if not when. */
    return info->Ss != 0 && words[1] == 0 ? ORDER : PRECISION;
  case JWRN_HIT_MARKER:
    return MISSING;
  case JWRN_MUST_RESYNC:
    return RESTART;
  case JWRN_EXTRANEOUS_DATA:
    return info->input_scan_number == 0 ? HEADER_JUNK : SCAN_JUNK;
  case JWRN_JPEG_EOF:
    return END;
  default:
    return OTHER;
  }
}

/* Whether a message is of a marker that does not stand within a scan. */
static int is_behind_scan(j_decompress_ptr info) {
  switch (info->err->msg_code) {
  case JWRN_EXTRANEOUS_DATA:
    return info->err->msg_parm.i[1] < 0xD0 || info->err->msg_parm.i[1] > 0xD7;
  case JTRC_ADOBE:
  case JTRC_APP0:
  case JTRC_APP14:
  case JTRC_DAC:
  case JTRC_DHT:
  case JTRC_DQT:
  case JTRC_DRI:
  case JTRC_EOI:
  case JTRC_JFIF:
  case JTRC_JFIF_EXTENSION:
  case JTRC_MISC_MARKER:
  case JTRC_PARMLESS_MARKER:
  case JTRC_SOF:
  case JTRC_SOI:
  case JTRC_SOS:
    return 1;
  default:
    return 0;
  }
}

/* The first word of a marker behind a scan: whatever is unread now belongs to nothing. */
static void scan_ended(struct watch *watch, j_decompress_ptr info, unsigned int skipped) {
  const struct entropy *entropy = (const struct entropy *)info->entropy;
  struct leftover left = { 0, 0, 0, 0 };
  int i;

  if (watch->last.bytes != 0) watch->unfinished++;
  watch->scan = info->input_scan_number;
  for (i = 0; i < info->comps_in_scan; i++)
    if (info->cur_comp_info[i] != NULL) watch->scanned |= 1u << info->cur_comp_info[i]->component_index;
  if (!info->arith_code && entropy != NULL && entropy->left >= 0 && entropy->left <= 64) {
    left.bytes = (unsigned int)entropy->left / 8;
    left.bits = (unsigned int)entropy->left % 8;
    /* A full buffer has 64 bits, by which a number of 64 bits must not be shifted. */
    if (left.bits != 0)
      left.padding = (unsigned int)(entropy->buffer >> (left.bytes * 8)) & ((1u << left.bits) - 1);
  }
  left.bytes += skipped;
  watch->last = left;
}

/* Whether all that a picture has came in the scans so far. */
static int is_complete(const struct watch *watch, j_decompress_ptr info) {
  int component, coefficient;

  if (!info->progressive_mode || info->coef_bits == NULL)
    return watch->scanned == (1u << info->num_components) - 1;
  for (component = 0; component < info->num_components; component++)
    for (coefficient = 0; coefficient < DCTSIZE2; coefficient++)
      if (info->coef_bits[component][coefficient] != 0) return 0;
  return 1;
}

/* How many components have no image data; of a progressive picture, not even the first coefficients. */
static unsigned int lacking(const struct watch *watch, j_decompress_ptr info) {
  unsigned int count = 0;
  int component;

  for (component = 0; component < info->num_components; component++)
    if (!(watch->scanned >> component & 1) ||
        (info->progressive_mode && info->coef_bits != NULL && info->coef_bits[component][0] < 0))
      count++;
  return count;
}

/* The end of the image, or of the file: where it is, and whether all came before it. */
static void image_ended(struct watch *watch, j_decompress_ptr info) {
  const unsigned char *next = info->src->next_input_byte;

  /* What libjpeg puts behind a file that lacks the mark is not in it. */
  watch->last.end = watch->size;
  if (next >= watch->data + 2 && next <= watch->data + watch->size) watch->last.end = (size_t)(next - watch->data) - 2;
  watch->complete = is_complete(watch, info);
  watch->lacking = lacking(watch, info);
  watch->arithmetic = info->arith_code;
}

static void on_message(j_common_ptr common, int level) {
  struct watch *watch = (struct watch *)common->client_data;
  j_decompress_ptr info = (j_decompress_ptr)common;
  const struct marker *marker = (const struct marker *)info->marker;
  int code = common->err->msg_code;
  unsigned int skipped = 0;

  if (level < 0) watch->counts[kind(info)]++;
  if (code == JWRN_EXTRANEOUS_DATA) {
    skipped = (unsigned int)common->err->msg_parm.i[0] - watch->discarded;
    watch->discarded = 0;
    if (info->input_scan_number > 0 && skipped > 0 && !is_behind_scan(info)) watch->unfinished++;
  }
  if (code == JTRC_RST && marker->discarded > watch->discarded) {
    watch->discarded = marker->discarded;
    watch->unfinished++;
  }
  if (info->input_scan_number > watch->scan && is_behind_scan(info)) scan_ended(watch, info, skipped);
  if (code == JTRC_EOI) image_ended(watch, info);
  watch->emit(common, level);
}

static void on_error(j_common_ptr common) {
  struct watch *watch = (struct watch *)common->client_data;

  watch->fatal = 1;
  watch->leave(common);
}

/* Watches a handle from now on. 0: it is not as it was thought to be. */
int gpulane_watch_begin(void *handle, struct watch *watch, const unsigned char *data, size_t size) {
  struct jpeg_decompress_struct *info = &((struct handle *)handle)->decompress;
  struct jpeg_error_mgr *manager = (struct jpeg_error_mgr *)(info + 1);

  memset(watch, 0, sizeof(*watch));
  watch->data = data;
  watch->size = size;
  if (info->err != manager || !info->is_decompressor || info->client_data != NULL || info->mem == NULL)
    return 0;
  if (manager->emit_message == NULL || manager->error_exit == NULL || manager->last_jpeg_message <= JWRN_TOO_MUCH_DATA)
    return 0;
  watch->emit = manager->emit_message;
  watch->leave = manager->error_exit;
  info->client_data = watch;
  manager->emit_message = on_message;
  manager->error_exit = on_error;
  return 1;
}

/* Begins to count anew, before the same file is read again. */
void gpulane_watch_again(struct watch *watch) {
  memset(&watch->scan, 0, sizeof(*watch) - offsetof(struct watch, scan));
}

/* Whether every row was put out. */
int gpulane_watch_rows(const void *handle) {
  const struct jpeg_decompress_struct *info = &((const struct handle *)handle)->decompress;

  return info->output_height > 0 && info->output_scanline >= info->output_height;
}

/* What Rust takes its own structure for. */
size_t gpulane_watch_size(void) {
  return sizeof(struct watch);
}
