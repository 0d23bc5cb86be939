/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types. The small floating-point formats are described by their fields and converted in
 * software, rounding to nearest even: exactness matters here, speed does not.
 */
#include <math.h>

#include "internal.h"

struct format {
	int exponent_bits, mantissa_bits;
	bool has_infinity; /* e4m3 uses the largest exponent for numbers */
	bool saturates;    /* the 8-bit types do not overflow to infinity */
};

static const struct format formats[] = {
	[ncclFloat16] = {5, 10, true, false},
	[ncclBfloat16] = {8, 7, true, false},
	[ncclFloat8e4m3] = {4, 3, false, true},
	[ncclFloat8e5m2] = {5, 2, true, true},
};

size_t fake_datatype_bytes(ncclDataType_t datatype)
{
	static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return (unsigned int)datatype < sizeof(bytes) ? bytes[datatype] : 0;
}

static int bias(const struct format *format)
{
	return (1 << (format->exponent_bits - 1)) - 1;
}

double fake_minifloat_decode(ncclDataType_t datatype, unsigned int bits)
{
	const struct format *format = &formats[datatype];
	int mantissa_bits = format->mantissa_bits;
	unsigned int mantissa = bits & ((1u << mantissa_bits) - 1);
	unsigned int top = (1u << format->exponent_bits) - 1;
	unsigned int exponent = bits >> mantissa_bits & top;
	double sign = bits >> (mantissa_bits + format->exponent_bits) & 1 ? -1.0 : 1.0;

	if (exponent == top && format->has_infinity)
		return mantissa ? (double)NAN : sign * (double)INFINITY;
	if (exponent == top && mantissa == (1u << mantissa_bits) - 1)
		return (double)NAN;
	if (exponent == 0)
		return sign * ldexp((double)mantissa, 1 - bias(format) - mantissa_bits);
	return sign * ldexp((double)(mantissa | 1u << mantissa_bits),
			    (int)exponent - bias(format) - mantissa_bits);
}

static unsigned int largest(const struct format *format)
{
	unsigned int all = (1u << (format->exponent_bits + format->mantissa_bits)) - 1;

	/* the number before infinity, or before the one NaN */
	return format->has_infinity ? all - (1u << format->mantissa_bits) : all - 1;
}

/* value is positive and finite; may give a number beyond the largest */
static unsigned int round_positive(const struct format *format, double value)
{
	int exponent, lowest = 1 - bias(format);
	double scaled;

	frexp(value, &exponent);
	exponent -= 1;
	if (exponent < lowest)
		exponent = lowest;
	/* an integer number of units in the last place; rint rounds halves to even */
	scaled = rint(ldexp(value, format->mantissa_bits - exponent));
	/* a carry into the exponent is what the addition does by itself */
	if (scaled < (double)(1u << format->mantissa_bits))
		return (unsigned int)scaled;
	return (unsigned int)scaled + ((unsigned int)(exponent - lowest) << format->mantissa_bits);
}

unsigned int fake_minifloat_encode(ncclDataType_t datatype, double value)
{
	const struct format *format = &formats[datatype];
	int width = format->exponent_bits + format->mantissa_bits;
	unsigned int sign = signbit(value) ? 1u << width : 0;
	unsigned int magnitude;

	if (isnan(value))
		return sign | ((1u << width) - 1);
	value = fabs(value);
	if (value == 0)
		return sign;
	if (isinf(value) || value > 1e40)
		magnitude = largest(format) + 1;
	else
		magnitude = round_positive(format, value);
	if (magnitude > largest(format))
		magnitude = format->saturates ? largest(format) : largest(format) + 1;
	return sign | magnitude;
}
