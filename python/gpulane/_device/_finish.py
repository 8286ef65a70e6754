"""Finishes pictures on the GPU: planes of YCbCr to RGB at the size asked for, a whole ragged batch in one launch."""

from __future__ import annotations

import struct
from ctypes import c_int, c_void_p

from .._batches import Decode
from ._cuda import Driver

__all__ = ["DECODED", "FITS", "SOURCE", "Finisher"]

FITS = {"stretch": 0, "crop": 1, "pad": 2, "short": 3}
TILE_WIDTH, TILE_HEIGHT = 32, 16
"""As `TILE_W` and `TILE_H` below."""

DECODED = struct.Struct("<QQQIIIIIIII")
"""Where a JPEG decoded on the GPU lies: luma, Cb, Cr; their pitches, height, width, chroma height and width, chroma,
whether there is anything. As `Decoded` below."""

SOURCE = r"""
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// A row of a slot's table.
struct Entry { u64 item, offset, bytes; u8 kind, element, orientation, chroma; u32 ndim, dims[4], name, name_bytes; u64 zero; };
// A JPEG that was decoded on this GPU.
struct Decoded { u64 y, cb, cr; u32 y_pitch, c_pitch, height, width, c_height, c_width, chroma, usable; };
// A picture before it is turned and brought to size.
struct Picture { const u8 *y, *cb, *cr; int y_pitch, c_pitch, height, width, c_height, c_width, chroma, orientation; };

__device__ inline int clamped(int value, int most) { return min(max(value, 0), most); }

// Chroma at a pixel, by libjpeg's triangle filter; 0 4:4:4, 1 4:2:2, 2 4:2:0, 4 4:4:0.
__device__ inline int chroma_at(const Picture &p, const u8 *plane, int x, int y) {
    int right = p.c_width - 1, bottom = p.c_height - 1;
    if (p.chroma == 0) return plane[(u64)y * p.c_pitch + x];
    if (p.chroma == 4) {
        int row = y >> 1, other = clamped(row + ((y & 1) ? 1 : -1), bottom);
        return (3 * plane[(u64)row * p.c_pitch + x] + plane[(u64)other * p.c_pitch + x] + 1 + (y & 1)) >> 2;
    }
    int column = x >> 1, beside = clamped(column + ((x & 1) ? 1 : -1), right);
    if (p.chroma == 1) {
        const u8 *line = plane + (u64)y * p.c_pitch;
        if (p.c_width <= 2) return line[column];  // Too narrow for libjpeg's filter.
        return (3 * line[column] + line[beside] + 1 + (x & 1)) >> 2;
    }
    int row = y >> 1, other = clamped(row + ((y & 1) ? 1 : -1), bottom);
    const u8 *near_line = plane + (u64)row * p.c_pitch, *far_line = plane + (u64)other * p.c_pitch;
    if (p.c_width <= 2) return near_line[column];
    int here = 3 * near_line[column] + far_line[column], there = 3 * near_line[beside] + far_line[beside];
    return (3 * here + there + 8 - (x & 1)) >> 4;
}

// The pixel of the turned picture, in libjpeg's fixed point.
__device__ inline void pixel_at(const Picture &p, int x, int y, int colours, float weight, float sum[3]) {
    int sx = x, sy = y;
    switch (p.orientation) {
        case 2: sx = p.width - 1 - x; break;
        case 3: sx = p.width - 1 - x; sy = p.height - 1 - y; break;
        case 4: sy = p.height - 1 - y; break;
        case 5: sx = y; sy = x; break;
        case 6: sx = y; sy = p.height - 1 - x; break;
        case 7: sx = p.width - 1 - y; sy = p.height - 1 - x; break;
        case 8: sx = p.width - 1 - y; sy = x; break;
    }
    int luma = p.y[(u64)sy * p.y_pitch + sx];
    if (colours == 1) { sum[0] += weight * luma; return; }
    if (p.chroma == 3) {
        for (int c = 0; c < 3; c++) sum[c] += weight * luma;
        return;
    }
    int cb = chroma_at(p, p.cb, sx, sy) - 128, cr = chroma_at(p, p.cr, sx, sy) - 128;
    sum[0] += weight * clamped(luma + ((91881 * cr + 32768) >> 16), 255);
    sum[1] += weight * clamped(luma + ((-22554 * cb - 46802 * cr + 32768) >> 16), 255);
    sum[2] += weight * clamped(luma + ((116130 * cb + 32768) >> 16), 255);
}

// The source pixels that make up one of the target, with triangle weights, as Pillow takes them.
struct Window { int first, count; float middle, slope, total; };

__device__ inline Window window_of(int at, int target, double from, double length, int size) {
    double scale = length / target, reach = scale < 1.0 ? 1.0 : scale, centre = from + (at + 0.5) * scale;
    int first = max((int)(centre - reach + 0.5), 0), end = min((int)(centre + reach + 0.5), size);
    Window w = {first, end - first, (float)(centre - 0.5 - first), (float)(1.0 / reach), 0.f};
    for (int i = 0; i < w.count; i++) w.total += fmaxf(0.f, 1.f - fabsf((i - w.middle) * w.slope));
    return w;
}

__device__ inline float weight_of(const Window &w, int i) {
    return fmaxf(0.f, 1.f - fabsf((i - w.middle) * w.slope));
}

__device__ inline int rounded(float value) { return clamped((int)floorf(value + 0.5f), 255); }

__device__ inline bool picture_of(const Entry &e, u64 base, const Decoded *decoded, int at, Picture &p) {
    p.orientation = e.orientation;
    if (e.kind == 3) {
        if (!decoded || !decoded[at].usable) return false;
        const Decoded &d = decoded[at];
        p.y = (const u8 *)d.y; p.cb = (const u8 *)d.cb; p.cr = (const u8 *)d.cr;
        p.y_pitch = d.y_pitch; p.c_pitch = d.c_pitch; p.height = d.height; p.width = d.width;
        p.c_height = d.c_height; p.c_width = d.c_width; p.chroma = d.chroma;
        return true;
    }
    p.height = e.dims[0]; p.width = e.dims[1]; p.c_height = e.dims[2]; p.c_width = e.dims[3]; p.chroma = e.chroma;
    p.c_pitch = p.c_width;
    p.y_pitch = (p.chroma == 1 || p.chroma == 2) ? 2 * p.c_width : p.width;
    u64 rows = (p.chroma == 2 || p.chroma == 4) ? 2 * p.c_height : p.height;
    p.y = (const u8 *)(base + e.offset);
    p.cb = p.y + rows * p.y_pitch;
    p.cr = p.cb + (u64)p.c_height * p.c_pitch;
    return true;
}

// Of a side that was brought to `resized`, the middle as long as `target`; what is left over is halved, to even.
__device__ inline void middle_of(int side, long long resized, int target, double &from, double &used, int &at, int &inner) {
    if (resized <= target) { inner = (int)resized; at = (target - inner) / 2; return; }
    double scale = (double)side / resized;
    from = rint((resized - target) * 0.5) * scale;
    used = target * scale;
}

#define TILE_W 32
#define TILE_H 16
#define ROWS 96

// One block: TILE_W x TILE_H pixels of one picture. First the source rows it needs, brought to the target's width, then
// those to its height; each rounded to 8 bits, as Pillow does.
extern "C" __global__ void __launch_bounds__(TILE_W * 8) finish(
    const Entry *table, u64 base, const Decoded *decoded, u8 *out, int width, int height, int colours, int fit, int shorter) {
    __shared__ u8 wide[3][ROWS][TILE_W];
    __shared__ Window columns[TILE_W], lines[TILE_H];
    int at = blockIdx.z, x = blockIdx.x * TILE_W + threadIdx.x, top = blockIdx.y * TILE_H;
    Entry e = table[at];
    u8 *target = out + (u64)at * width * height * colours;
    Picture p;
    bool array = e.kind == 1;
    if (array || !picture_of(e, base, decoded, at, p)) {
        for (int y = top + threadIdx.y; y < min(top + TILE_H, height); y += blockDim.y)
            for (int c = 0; c < colours && x < width; c++) {
                u64 place = ((u64)y * width + x) * colours + c;
                target[place] = array ? ((const u8 *)(base + e.offset))[place] : 0;
            }
        return;
    }
    bool turned = p.orientation >= 5 && p.orientation <= 8;
    int tall = turned ? p.width : p.height, broad = turned ? p.height : p.width;
    // The part of the picture that is used, and the part of the target it fills.
    double from_x = 0, from_y = 0, used_x = broad, used_y = tall;
    int left = 0, upper = 0, inner_w = width, inner_h = height;
    double ratio = (double)broad / tall, wanted = (double)width / height;
    if (fit == 1 && ratio != wanted) {
        if (ratio > wanted) { used_x = wanted * tall; from_x = (broad - used_x) * 0.5; }
        else { used_y = broad / wanted; from_y = (tall - used_y) * 0.5; }
    }
    if (fit == 2 && ratio != wanted) {
        if (ratio > wanted) { inner_h = max(1, (int)rint((double)tall / broad * width)); upper = (int)rint((height - inner_h) * 0.5); }
        else { inner_w = max(1, (int)rint((double)broad / tall * height)); left = (int)rint((width - inner_w) * 0.5); }
    }
    if (fit == 3) {
        // As torchvision: the shorter side to a length, the longer one cut off, then the middle; bars where there is less.
        middle_of(broad, (long long)shorter * broad / min(broad, tall), width, from_x, used_x, left, inner_w);
        middle_of(tall, (long long)shorter * tall / min(broad, tall), height, from_y, used_y, upper, inner_h);
    }
    // The windows are the same for whole columns and rows of the tile: each is worked out once.
    if (threadIdx.y == 0) columns[threadIdx.x] = window_of(clamped(x - left, inner_w - 1), inner_w, from_x, used_x, broad);
    for (int line = threadIdx.y * blockDim.x + threadIdx.x; line < TILE_H; line += blockDim.x * blockDim.y)
        lines[line] = window_of(clamped(top + line - upper, inner_h - 1), inner_h, from_y, used_y, tall);
    __syncthreads();
    bool inside_x = x >= left && x < left + inner_w && x < width;
    Window across = columns[threadIdx.x];
    float share = 1.f / across.total;
    int y = top, end = min(top + TILE_H, height);
    while (y < end) {
        // As many rows of the target as the shared memory has source rows for.
        int begin = lines[y - top].first, stop = begin, last = y;
        for (; last < end; last++) {
            int needed = lines[last - top].first + lines[last - top].count;
            if (needed - begin > ROWS && last > y) break;
            stop = needed;
        }
        bool fits = stop - begin <= ROWS;
        __syncthreads();
        if (fits && inside_x)
            for (int row = begin + threadIdx.y; row < stop; row += blockDim.y) {
                float sum[3] = {0, 0, 0};
                for (int i = 0; i < across.count; i++)
                    pixel_at(p, across.first + i, row, colours, weight_of(across, i), sum);
                for (int c = 0; c < colours; c++) wide[c][row - begin][threadIdx.x] = rounded(sum[c] * share);
            }
        __syncthreads();
        for (int to = y + threadIdx.y; to < last; to += blockDim.y) {
            if (x >= width) continue;
            bool inside = inside_x && to >= upper && to < upper + inner_h;
            float total[3] = {0, 0, 0};
            Window down = lines[to - top];
            for (int i = 0; inside && i < down.count; i++) {
                float weight = weight_of(down, i);
                if (fits) {
                    for (int c = 0; c < colours; c++) total[c] += weight * wide[c][down.first + i - begin][threadIdx.x];
                } else {
                    float sum[3] = {0, 0, 0};
                    for (int k = 0; k < across.count; k++)
                        pixel_at(p, across.first + k, down.first + i, colours, weight_of(across, k), sum);
                    for (int c = 0; c < colours; c++) total[c] += weight * rounded(sum[c] * share);
                }
            }
            for (int c = 0; c < colours; c++)
                target[((u64)to * width + x) * colours + c] = inside ? rounded(total[c] / down.total) : 0;
        }
        y = last;
    }
}
"""


class Finisher:
    """The compiled kernel."""

    def __init__(self, driver: Driver, code: bytes) -> None:
        self._driver = driver
        self._kernel = driver.load(code, "finish")

    def launch(self, table: int, base: int, decoded: int, out: int, count: int, decode: Decode, stream: int) -> None:
        """Finishes `count` pictures. `base` is where the slot would begin on the device, `decoded` may be 0."""
        assert decode.size is not None
        width, height = decode.size
        grid = (-(-width // TILE_WIDTH), -(-height // TILE_HEIGHT), count)
        numbers = [c_int(width), c_int(height), c_int(decode.channels), c_int(FITS[decode.fit]), c_int(decode.short)]
        args = [c_void_p(table), c_void_p(base), c_void_p(decoded), c_void_p(out), *numbers]
        self._driver.launch(self._kernel, grid, (TILE_WIDTH, 8, 1), stream, args)
