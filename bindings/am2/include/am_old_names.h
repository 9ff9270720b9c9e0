/* Names of Berkeley's am.h for calls of am.h, which includes this. Its AM_ReplyMedium has the number of bytes before the source.
 * They need what am.h needs: C99 or C++11. */
#ifndef AM2_AM_OLD_NAMES_H
#define AM2_AM_OLD_NAMES_H

#define AM_GetXferAsynch0 AM_GetXferAsync0
#define AM_GetXferAsynch1 AM_GetXferAsync1
#define AM_GetXferAsynch2 AM_GetXferAsync2
#define AM_GetXferAsynch3 AM_GetXferAsync3
#define AM_GetXferAsynch4 AM_GetXferAsync4
#define AM_GetXferAsynch5 AM_GetXferAsync5
#define AM_GetXferAsynch6 AM_GetXferAsync6
#define AM_GetXferAsynch7 AM_GetXferAsync7
#define AM_GetXferAsynch8 AM_GetXferAsync8
#define AM_GetXferAsynch9 AM_GetXferAsync9
#define AM_GetXferAsynch10 AM_GetXferAsync10
#define AM_GetXferAsynch11 AM_GetXferAsync11
#define AM_GetXferAsynch12 AM_GetXferAsync12
#define AM_GetXferAsynch13 AM_GetXferAsync13
#define AM_GetXferAsynch14 AM_GetXferAsync14
#define AM_GetXferAsynch15 AM_GetXferAsync15
#define AM_GetXferAsynch16 AM_GetXferAsync16
#define AM_RequestMedium4 AM_RequestI4
#define AM_RequestLong4 AM_RequestXfer4
#define AM_RequestLongAsync4 AM_RequestXferAsync4
#define AM_ReplyMedium4(t, h, n, s, ...) AM_ReplyI4(t, h, s, n, __VA_ARGS__)
#define AM_ReplyLong4 AM_ReplyXfer4
#define AM_RequestMedium8 AM_RequestI8
#define AM_RequestLong8 AM_RequestXfer8
#define AM_RequestLongAsync8 AM_RequestXferAsync8
#define AM_ReplyMedium8(t, h, n, s, ...) AM_ReplyI8(t, h, s, n, __VA_ARGS__)
#define AM_ReplyLong8 AM_ReplyXfer8

#endif
