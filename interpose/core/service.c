/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "service.h"

#include <stddef.h>

static const struct nspy_service *services;

void nspy_service_register(struct nspy_service *service)
{
	service->next = services;
	services = service;
}

void nspy_service_start(void)
{
	for (const struct nspy_service *s = services; s; s = s->next)
		if (s->start)
			s->start();
}

void nspy_service_write(void)
{
	for (const struct nspy_service *s = services; s; s = s->next)
		if (s->write)
			s->write();
}

void nspy_service_stop(void)
{
	for (const struct nspy_service *s = services; s; s = s->next)
		if (s->stop)
			s->stop();
}

void nspy_service_ended(void)
{
	for (const struct nspy_service *s = services; s; s = s->next)
		if (s->ended)
			s->ended();
}
